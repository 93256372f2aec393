// The language itself: a little of everything (check_templates.py compares far more with Jinja2),
// where errors happen, and what the limits stop.

#include <gtest/gtest.h>

#include <thread>

#include "text/jinja/search.h"
#include "text/jinja/unicode.h"
#include "text/render_template.h"

namespace cera::text {
namespace {

std::string repeated(std::string_view text, size_t n) {
  std::string out;
  while (n-- > 0) out += text;
  return out;
}

TEST(Jinja, Expressions) {
  const std::pair<const char*, const char*> cases[] = {
      {"1 + 2 * 3 ** 2", "19"},
      {"-7 // 2 ~ ' ' ~ -7 % 3", "-4 2"},
      {"'a' 'b' ~ 1.0 ~ none ~ true", "ab1.0NoneTrue"},
      {"[1, 'it\\'s', (2,), {'k': none}]", "[1, \"it's\", (2,), {'k': None}]"},
      {"1 < 2 < 3 and not 4 in [1]", "True"},
      {"'héllo'[1:-1] ~ 'héllo' | length", "éll5"},
      {"undefined_thing | default('d') ~ undefined_thing", "d"},
      {"18446744073709551615.0", "1.8446744073709552e+19"},
      {"{'a': {'b': [10, 20]}}.a.b[-1]", "20"},
      {"range(3) | map('string') | join('-')", "0-1-2"},
      {"'x' if false else 'y' if true else 'z'", "y"},
      {"big ~ ' ' ~ (big > 1) ~ ' ' ~ (big | tojson)",
       "18446744073709551615 True 18446744073709551615"},
  };
  for (const auto& [expression, expected] : cases) {
    const Json variables = {{"big", uint64_t(18446744073709551615u)}};
    EXPECT_EQ(shown(render(std::string("{{ ") + expression + " }}", variables)), expected)
        << expression;
  }
}

TEST(Jinja, Statements) {
  const std::pair<const char*, const char*> cases[] = {
      {"{% for i in [1, 2, 3] if i != 2 %}{{ loop.index }}{{ i }}{% else %}-{% endfor %}", "1123"},
      {"{% set ns = namespace(n=0) %}{% for i in range(4) %}{% set ns.n = ns.n + i %}{% endfor "
       "%}{{ ns.n }}",
       "6"},
      {"{% macro m(a, b='B') %}{{ a }}{{ b }}{{ varargs }}{% endmacro %}{{ m(1) }}{{ m(1, 2, 3) }}",
       "1B()12(3,)"},
      {"{% if false %}a{% elif true %}b{% else %}c{% endif %}", "b"},
      {"{% for i in range(9) %}{% if i == 1 %}{% continue %}{% endif %}{% if i == 3 %}{% break "
       "%}{% endif %}{{ i }}{% endfor %}",
       "02"},
      {"  {% set x = 1 %}\n  {{- x }}\n{# c #}\nend\n", "1\nend"},
      {"{% raw %}{{ x }}{% endraw %}", "{{ x }}"},
      {"{% for k, v in {'a': 1}.items() %}{{ k }}{{ v }}{% endfor %}", "a1"},
  };
  for (const auto& [source, expected] : cases) EXPECT_EQ(shown(render(source)), expected) << source;
}

TEST(Jinja, ErrorsSayWhere) {
  const std::pair<const char*, const char*> cases[] = {
      {"a\n  {{ 1 + }}", "error at line 2, column 10: expected an expression, found '}}'"},
      {"{% if x %}\nabc",
       "error at line 2, column 4: unexpected end of template: 'if' is not closed, expected 'elif' "
       "or 'else' or 'endif'"},
      {"x\n{% nonsense %}", "error at line 2, column 4: unknown statement 'nonsense'"},
      {"{% if x %}{% endfor %}",
       "error at line 1, column 14: unknown statement 'endfor' inside of 'if'"},
      {"é {{ 'a }}", "error at line 1, column 6: the string is not closed"},
      {"{{ (1 }}", "error at line 1, column 7: unexpected '}', expected ')'"},
      {"{{ $ }}", "error at line 1, column 4: unexpected character '$'"},
      {"{# a", "error at line 1, column 1: the comment is not closed"},
      {"\n{% raw %} a", "error at line 2, column 1: the raw block is not closed"},
      {"{{ 99999999999999999999 }}",
       "error at line 1, column 4: the integer does not fit in 64 bits"},
      {"{% include 'x' %}",
       "error at line 1, column 4: 'include' is not supported: a chat template stands alone"},
      {"{{ 1 | nonsense }}", "error at line 1, column 8: there is no filter named 'nonsense'"},
      {"{{ 1 | random }}", "error at line 1, column 8: the filter 'random' is not supported"},
      {"{{ 1 is nonsense }}", "error at line 1, column 6: there is no test named 'nonsense'"},
      {"{% for x in [1] %}\n  {{ x.y.z }}\n{% endfor %}",
       "error at line 2, column 9: 'int object' has no attribute 'y'"},
      {"{{ 1 }}\n\n{{ 2 + 'a' }}",
       "error at line 3, column 6: unsupported operand types for +: 'int' and 'str'"},
      {"{% macro m() %}\n{{ 1 / 0 }}{% endmacro %}\n{{ m() }}",
       "error at line 2, column 6: division by zero"},
      {"{% set a, b = [1] %}", "error at line 1, column 8: expected 2 values to unpack, got 1"},
      {"{{ [1].append(2) }}",
       "error at line 1, column 14: access to attribute 'append' of 'list' object is unsafe."},
      {"{{ 'a'.encode() }}", "error at line 1, column 14: str.encode is not supported"},
      {"{{ 9223372036854775807 + 1 }}",
       "error at line 1, column 24: the integer does not fit in 64 bits"},
      {"{{ raise_exception('no ' ~ 'way') }}", "error at line 1, column 19: no way"},
      {"{{ 'a' | upper(1) }}",
       "error at line 1, column 10: upper() takes at most 0 arguments, 1 were given"},
      {"{{ 'a' | replace('a') }}",
       "error at line 1, column 10: replace() needs the argument 'new'"},
      {"{{ 'a' | join(x=1) }}",
       "error at line 1, column 10: join() got an unexpected argument 'x'"},
      {"{% break %}", "error at line 1, column 4: 'break' outside of a loop"},
  };
  for (const auto& [source, expected] : cases) EXPECT_EQ(shown(render(source)), expected) << source;
}

TEST(Jinja, ARefusedConversationIsTheCallersFault) {
  EXPECT_EQ(render("{{ raise_exception('x') }}").error().code, ErrorCode::invalid_argument);
  EXPECT_EQ(render("{{ 1 / 0 }}").error().code, ErrorCode::malformed);
}

// ---- limits ----

/// Stops earlier than the default, so that the tests are fast.
TemplateLimits strict() {
  TemplateLimits limits;
  limits.max_steps = 500'000;
  return limits;
}

/// Fails with a message that contains `part`.
void expect_stopped(const std::string& source, const std::string& part,
                    Json variables = Json::object()) {
  const std::string result = shown(render(source, std::move(variables), strict()));
  EXPECT_TRUE(result.starts_with("error at "))
      << source.substr(0, 80) << " gives " << result.substr(0, 80);
  EXPECT_NE(result.find(part), std::string::npos)
      << source.substr(0, 80) << " gives " << result.substr(0, 200);
}

TEST(JinjaLimits, DeepSourceIsAnError) {
  constexpr size_t n = 20'000;
  const std::pair<std::string, std::string> brackets[] = {
      {"(", ")"},  {"[", "]"},           {"-", ""},   {"not ", ""},    {"{1:", "}"},
      {"f(", ")"}, {"x if ", " else 0"}, {"a[", "]"}, {"1 is in ", ""}};
  for (const auto& [open, close] : brackets) {
    expect_stopped("{{ " + repeated(open, n) + "1" + repeated(close, n) + " }}", "deeper than");
  }
  for (const char* tail : {".a", "[0]", "()", "|upper"}) {
    const std::string result = shown(render("{{ x" + repeated(tail, n) + " }}"));
    EXPECT_NE(result.find("deeper than"), std::string::npos) << tail << result.substr(0, 100);
  }
  expect_stopped(repeated("{% if 1 %}", n), "deeper than");
  expect_stopped(repeated("{% for a in b %}", n), "deeper than");
  expect_stopped("{% set " + repeated("(", n) + "a" + repeated(")", n) + " = 1 %}", "deeper than");
}

TEST(JinjaLimits, LongChainsAreNotDeep) {
  constexpr size_t n = 20'000;
  EXPECT_EQ(shown(render("{{ 0" + repeated(" + 1", n) + " }}")), std::to_string(n));
  EXPECT_EQ(shown(render("{{ 1" + repeated(" and 1", n) + " }}")), "1");
  EXPECT_EQ(shown(render("{{ ''" + repeated(" ~ 'a'", n) + " }}")), std::string(n, 'a'));
  EXPECT_EQ(shown(render("{% if 0 %}" + repeated("{% elif 0 %}", n) + "{% else %}x{% endif %}")),
            "x");
}

TEST(JinjaLimits, DeepValuesAreAnError) {
  const std::string nest = "{% set ns = namespace(x=1) %}{% for i in range(1000) %}{% set ns.x = ";
  const std::string end = " %}{% endfor %}";
  for (const char* deeper :
       {"[ns.x]", "{'k': ns.x}", "(ns.x,)", "[ns.x] | select", "[ns.x] | list", "dict(k=ns.x)",
        "cycler(ns.x)", "joiner(ns.x)", "{'k': ns.x}.get", "[ns.x] | batch(1)"}) {
    expect_stopped(nest + deeper + end, "nested deeper than");
  }
  expect_stopped("{% set ns = namespace() %}{% set ns.x = [ns] %}{{ ns }}", "nested deeper than");
  Json deep = 1;
  for (int i = 0; i < 1000; ++i) deep = Json::array({std::move(deep)});
  expect_stopped("{{ x }}", "'x' is nested deeper than 200 levels", {{"x", std::move(deep)}});
}

TEST(JinjaLimits, RecursionIsAnError) {
  expect_stopped("{% macro m() %}{{ m() }}{% endmacro %}{{ m() }}", "evaluation is nested deeper");
  expect_stopped(
      "{% macro m(n) %}{% for i in [1] %}{% if n %}{{ [m(n + 1)] | first }}{% endif %}{% endfor "
      "%}{% endmacro %}{{ m(1) }}",
      "evaluation is nested deeper");
  expect_stopped("{% macro m() %}{% call m() %}{{ caller() }}{% endcall %}{% endmacro %}{{ m() }}",
                 "deeper");
  expect_stopped("{% for x in [1] recursive %}{{ loop([1]) }}{% endfor %}",
                 "evaluation is nested deeper");
  expect_stopped("{% macro m(x=m()) %}{% endmacro %}{{ m() }}", "evaluation is nested deeper");
  // A tool schema, say, may be nested this deep.
  EXPECT_EQ(shown(render("{% macro m(n) %}{% if n > 0 %}{% for i in [1] %}{{ n }},{{ m(n - 1) }}{% "
                         "endfor %}{% endif %}{% endmacro %}"
                         "{{ (m(60) | length) }}")),
            "171");
}

TEST(JinjaLimits, EndlessWorkIsAnError) {
  const std::string loop = "{% for i in range(100000) %}";
  expect_stopped(loop + loop + "{% endfor %}{% endfor %}", "steps");
  expect_stopped(
      "{% set ns = namespace(x=['a']) %}" + loop + "{% set ns.x = ns.x + ns.x %}{% endfor %}",
      "more than");
  // Values that share their parts are small, but not when they are walked over.
  const std::string doubled =
      "{% set ns = namespace(x=[1], y=[1]) %}{% for i in range(100) %}{% set ns.x = [ns.x, ns.x] %}"
      "{% set ns.y = [ns.y, ns.y] %}{% endfor %}";
  for (const char* walk : {"{{ ns.x }}", "{{ ns.x | tojson }}", "{{ ns.x == ns.y }}",
                           "{{ ns.x < ns.y }}", "{{ {(ns.x,): 1} }}"}) {
    expect_stopped(doubled + walk, "");
  }
}

TEST(JinjaLimits, HugeTextIsAnErrorBeforeItIsMade) {
  const char* const sources[] = {
      "{{ 'a' * 1000000000 }}",
      "{{ 'a' * 9223372036854775807 }}",
      "{{ ('a' * 1000000) * 1000000 }}",
      "{{ [1] * 1000000000 }}",
      "{{ ['a'] * 10000000 | length }}",
      "{{ range(1000000000) }}",
      "{% set x = 'a' * 10000000 %}{{ x ~ x ~ x ~ x ~ x ~ x ~ x }}",
      "{% set x = 'a' * 1000000 %}{{ x | replace('a', x) }}",
      "{% set x = 'a' * 1000000 %}{{ x.replace('', x) }}",
      "{% set x = 'a' * 1000000 %}{{ x.join(x) }}",
      "{% set x = 'a' * 1000000 %}{{ x | list | join(x) }}",
      "{{ 'a'.center(1000000000) }}",
      "{{ 'a' | center(1000000000) }}",
      "{{ 'a'.zfill(1000000000) }}",
      "{{ 'a' | indent(1000000000) }}",
      "{{ [1] | tojson(indent=1000000000) }}",
      "{{ '%1000000000d' | format(1) }}",
      "{{ '%.1000000000f' | format(1) }}",
      "{{ '{:1000000000}'.format(1) }}",
      "{{ [1] | batch(1000000000, 'x') | list }}",
      "{{ [1] | slice(1000000000) | list }}",
      "{% for i in range(100000) %}{{ 'a' * 10000 }}{% endfor %}",
      ("{% set ns = namespace(x=['a' * 1000000]) %}{% for i in range(1000) %}{% set ns.x = ns.x + "
       "['b' * 1000000] %}{% endfor %}"),
  };
  for (const char* source : sources) {
    expect_stopped(source, "");
  }
}

TEST(JinjaLimits, AreAdjustable) {
  TemplateLimits limits;
  limits.max_steps = 100;
  EXPECT_EQ(shown(render("{% for i in range(100) %}{{ i }}{% endfor %}", Json::object(), limits)),
            "error at line 1, column 29: the template needs more than 100 steps");
  limits = {};
  limits.max_output_bytes = 10;
  EXPECT_EQ(shown(render("{% for i in range(100) %}{{ i }}{% endfor %}", Json::object(), limits)),
            "error at line 1, column 29: the text grows beyond 10 bytes");
  limits = {};
  limits.max_source_bytes = 3;
  EXPECT_EQ(shown(render("abcd", Json::object(), limits)),
            "error at chat template: it has 4 bytes, the limit is 3");
  limits = {};
  limits.max_depth = 3;
  EXPECT_TRUE(shown(render("{{ ((((1)))) }}", Json::object(), limits))
                  .starts_with("error at line 1, column 6"));
}

TEST(JinjaLimits, MemoryIsGivenBack) {
  // 300 MB, but never more than one of them at a time.
  EXPECT_EQ(shown(render("{% for i in range(300) %}{% set x = 'a' * 1000000 %}{% endfor %}done")),
            "done");
}

// A template can build values that reach themselves; AddressSanitizer sees whether they are freed.
TEST(JinjaLimits, CyclesAreFreed) {
  EXPECT_EQ(shown(render(
                "{% set ns = namespace() %}{% set ns.me = ns %}{% set ns.list = [ns, [ns]] %}ok")),
            "ok");
  EXPECT_EQ(
      shown(render(
          "{% set ns = namespace() %}{% macro m() %}{{ ns }}{% endmacro %}{% set ns.m = m %}ok")),
      "ok");
  EXPECT_EQ(shown(render("{% set ns = namespace() %}{% for i in [1] %}{% set ns.l = loop %}{{ "
                         "loop.changed(loop) }}{% endfor %}")),
            "True");
  EXPECT_EQ(shown(render("{% for i in [1] %}{{ loop.changed(loop) }}{{ 1 / 0 }}{% endfor %}")),
            "error at line 1, column 48: division by zero");
  EXPECT_EQ(shown(render("{% set ns = namespace() %}{% macro m() %}{% set x = 1 %}{% macro i() "
                         "%}{{ x }}{% endmacro %}{% set ns.i = i %}{% endmacro %}"
                         "{{ m() }}{{ ns.i() }}")),
            "error at line 1, column 141: the macro 'i' was called after the scope that defines it "
            "had ended");
}

TEST(Jinja, ATemplateMayBeRenderedByManyThreads) {
  const auto chat_template =
      *ChatTemplate::parse("{% for i in range(50) %}{{ 'é' | upper }}{{ x }}{% endfor %}");
  TemplateInputs inputs;
  inputs.arguments = json({{"x", "y"}});
  std::vector<std::thread> threads;
  std::vector<std::string> results(4);
  for (std::string& result : results) {
    threads.emplace_back([&] { result = shown(chat_template->render(inputs)); });
  }
  for (std::thread& thread : threads) thread.join();
  for (const std::string& result : results) EXPECT_EQ(result, repeated("Éy", 50));
}

TEST(Jinja, InvalidUtf8PassesThrough) {
  EXPECT_EQ(shown(render("\xFF{{ '\xC3' }}{{ 'a\x80' | upper }}{{ 'é\xE2' | length }}{{ "
                         "('\xF0\x9F' + 'a')[-1] }}")),
            "\xFF\xC3"
            "A\x80"
            "2a");
}

// ---- the parts ----

TEST(JinjaUnicode, DecodesAndRefuses) {
  using jinja::unicode::decode;
  const std::pair<const char*, int> cases[] = {{"a", 1}, {"é", 2}, {"€", 3}, {"😀", 4}};
  for (const auto& [text, n] : cases) EXPECT_EQ(decode(text, 0).n_bytes, n) << text;
  for (const char* text : {"\x80", "\xC0\x80", "\xC3", "\xE0\x80\x80", "\xED\xA0\x80",
                           "\xF5\x80\x80\x80", "\xF4\x90\x80\x80", "\xE2\x82"}) {
    EXPECT_EQ(decode(text, 0).value, jinja::unicode::kInvalid);
    EXPECT_EQ(decode(text, 0).n_bytes, 1);
  }
  const std::string text = "aé€😀\x80";
  size_t at = text.size();
  for (const size_t n : {1, 4, 3, 2, 1}) {
    EXPECT_EQ(jinja::unicode::previous(text, at), at - n);
    at -= n;
  }
}

TEST(JinjaSearch, LongNeedlesFindTheSame) {
  const std::string unit = "abaab", needle = repeated("ab", 20) + "c";
  const std::string text = repeated("ab", 500) + needle + repeated(unit, 50) + needle + "ab";
  const jinja::Searcher searcher(needle);
  EXPECT_EQ(searcher.find(text), text.find(needle));
  EXPECT_EQ(searcher.find(text, 1001), text.find(needle, 1001));
  EXPECT_EQ(searcher.find(text, text.size() - 5), std::string::npos);
  EXPECT_EQ(searcher.find_last(text, text.size()), text.rfind(needle));
  EXPECT_EQ(searcher.find_last(text, text.size() - 3), text.find(needle));
  EXPECT_EQ(searcher.find_last(text, 10), std::string::npos);
}

}  // namespace
}  // namespace cera::text
