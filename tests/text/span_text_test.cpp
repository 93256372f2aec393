#include "text/span_text.h"

#include <gtest/gtest.h>

namespace cera::text {
namespace {

constexpr Origin kTemplate = Origin::template_text;
constexpr Origin kContent = Origin::content;

/// "T" or "C" per byte.
std::string origins(const SpanText& text) {
  std::string out;
  for (size_t i = 0; i < text.size(); ++i) {
    out += text.origin_at(i) == kTemplate ? 'T' : 'C';
  }
  return out;
}

/// The promises of runs().
void expect_canonical(const SpanText& text) {
  size_t begin = 0;
  const SpanText::Run* previous = nullptr;
  for (const SpanText::Run& run : text.runs()) {
    EXPECT_GT(run.end, begin) << "an empty run";
    if (previous) {
      EXPECT_NE(previous->origin, run.origin) << "neighbours of one origin";
    }
    begin = run.end;
    previous = &run;
  }
  EXPECT_EQ(begin, text.size());
}

SpanText sample() {
  SpanText text("<a>", kTemplate);
  text.append("hello", kContent);
  text.append("</a>", kTemplate);
  return text;
}

TEST(SpanText, RemembersTheOriginOfEveryByte) {
  const SpanText text = sample();
  EXPECT_EQ(text.str(), "<a>hello</a>");
  EXPECT_EQ(origins(text), "TTTCCCCCTTTT");
  EXPECT_EQ(text.runs().size(), 3u);
  expect_canonical(text);
}

TEST(SpanText, EmptyPiecesLeaveNoRun) {
  SpanText text("", kContent);
  EXPECT_TRUE(text.empty());
  EXPECT_TRUE(text.runs().empty());
  text.append("", kTemplate);
  text.append(SpanText());
  EXPECT_TRUE(text.runs().empty());
  text.append("x", kContent);
  text.append("", kTemplate);
  text.append("y", kContent);
  EXPECT_EQ(text.runs().size(), 1u);
  expect_canonical(text);
}

TEST(SpanText, NeighboursOfOneOriginJoin) {
  SpanText text = sample();
  text.append(sample());
  EXPECT_EQ(origins(text), "TTTCCCCCTTTTTTTCCCCCTTTT");
  EXPECT_EQ(text.runs().size(), 5u);
  expect_canonical(text);
}

TEST(SpanText, AppendsItself) {
  SpanText text = sample();
  text.append(text);
  EXPECT_EQ(text.str(), "<a>hello</a><a>hello</a>");
  expect_canonical(text);
}

TEST(SpanText, EverySubstringKeepsItsOrigins) {
  const SpanText text = sample();
  const std::string expected = origins(text);
  for (size_t position = 0; position <= text.size() + 1; ++position) {
    for (size_t n = 0; n <= text.size() + 1; ++n) {
      const SpanText part = text.substr(position, n);
      const bool inside = position <= text.size();
      EXPECT_EQ(part.str(), inside ? text.str().substr(position, n) : "");
      EXPECT_EQ(origins(part), inside ? expected.substr(position, n) : "");
      expect_canonical(part);
    }
  }
  EXPECT_EQ(text.substr(3).str(), "hello</a>");
}

TEST(SpanText, EqualityIsAboutTheText) {
  EXPECT_EQ(SpanText("x", kTemplate), SpanText("x", kContent));
  EXPECT_FALSE(SpanText("x", kTemplate) == SpanText("y", kTemplate));
}

TEST(SpanText, ClearForgetsEverything) {
  SpanText text = sample();
  text.clear();
  EXPECT_TRUE(text.empty());
  EXPECT_TRUE(text.runs().empty());
}

}  // namespace
}  // namespace cera::text
