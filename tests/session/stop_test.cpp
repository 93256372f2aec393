#include "session/stop.h"

#include <gtest/gtest.h>

namespace cera {
namespace {

struct Outcome {
  std::string text;
  bool stopped;
  bool operator==(const Outcome&) const = default;
};

StopFilter make(std::vector<std::string> stops) {
  return StopFilter::make(std::move(stops)).value();
}

Outcome run(const std::vector<std::string>& stops, const std::vector<std::string>& pieces) {
  StopFilter filter = make(stops);
  std::string out;
  for (const std::string& piece : pieces) out += filter.push(piece);
  const bool stopped = filter.stopped();
  out += filter.finish();
  return {out, stopped};
}

/// Every way to cut `text` at code point borders, up to 2^12 of them.
void expect_for_all_splits(const std::vector<std::string>& stops, const std::string& text,
                           const Outcome& expected) {
  std::vector<std::string> points;
  for (const char c : text) {
    if ((static_cast<unsigned char>(c) & 0xc0u) == 0x80u)
      points.back() += c;
    else
      points.emplace_back(1, c);
  }
  ASSERT_LE(points.size(), 13u);
  for (uint32_t cuts = 0; cuts < 1u << (points.size() - 1); ++cuts) {
    std::vector<std::string> pieces(1);
    for (size_t i = 0; i < points.size(); ++i) {
      if (i > 0 && (cuts >> (i - 1) & 1u)) pieces.emplace_back();
      pieces.back() += points[i];
    }
    const Outcome got = run(stops, pieces);
    ASSERT_EQ(got.text, expected.text) << "cut mask " << cuts;
    ASSERT_EQ(got.stopped, expected.stopped) << "cut mask " << cuts;
  }
}

TEST(StopFilter, NothingLeaksAcrossTokenBorders) {
  StopFilter filter = make({"own fox"});
  EXPECT_EQ(filter.push("br"), "br");
  EXPECT_EQ(filter.push("own"), "");
  EXPECT_EQ(filter.push(" fox jumps"), "");
  EXPECT_TRUE(filter.stopped());
  EXPECT_EQ(filter.push("more"), "");
  EXPECT_EQ(filter.finish(), "");
}

TEST(StopFilter, HeldBackTailIsFlushedAtTheEnd) {
  StopFilter filter = make({"</s>x"});
  EXPECT_EQ(filter.push("ends </s"), "ends ");
  EXPECT_EQ(filter.finish(), "</s");
  EXPECT_FALSE(filter.stopped());
}

TEST(StopFilter, HoldsBackOnlyWhatCouldStillMatch) {
  StopFilter filter = make({"abc"});
  EXPECT_EQ(filter.push("ab"), "");
  EXPECT_EQ(filter.push("x"), "abx");
  EXPECT_EQ(filter.push("aab"), "a");
  EXPECT_EQ(filter.push("c"), "");
  EXPECT_TRUE(filter.stopped());
}

TEST(StopFilter, EverySplitGivesTheSame) {
  expect_for_all_splits({"own fox"}, "brown fox!", {"br", true});
  expect_for_all_splits({"aab"}, "aaaab", {"aa", true});          // overlapping beginnings
  expect_for_all_splits({"abcd", "bc"}, "xabcdx", {"xa", true});  // "bc" is complete first
  expect_for_all_splits({"bc", "abc"}, "xabcdx", {"x", true});    // same end: the longer one
  expect_for_all_splits({"\n\n", "."}, "a\nb\n\nc.", {"a\nb", true});
  expect_for_all_splits({"STOP"}, "STO STOX", {"STO STOX", false});
  expect_for_all_splits({"</s>x"}, "end</s>", {"end</s>", false});
  expect_for_all_splits({"x"}, "xyz", {"", true});
}

TEST(StopFilter, CharactersStayWhole) {
  expect_for_all_splits({"\u00e9\u4e16"}, "caf\u00e9\u4e16\u754c", {"caf", true});
  expect_for_all_splits({"\u4e16"}, "\u4e15\u4e17\u4e14",
                        {"\u4e15\u4e17\u4e14", false});  // same lead byte
  expect_for_all_splits({"\U0001F600!"}, "\U0001F600\U0001F600!", {"\U0001F600", true});
}

TEST(StopFilter, RefusesStopsThatCannotBe) {
  EXPECT_EQ(StopFilter::make({""}).error().code, ErrorCode::invalid_argument);
  EXPECT_EQ(StopFilter::make({"ok", "\x80"}).error().code, ErrorCode::invalid_argument);
  EXPECT_EQ(StopFilter::make({"\xe4\xb8"}).error().code, ErrorCode::invalid_argument);
  EXPECT_TRUE(StopFilter::make({}).has_value());
}

}  // namespace
}  // namespace cera
