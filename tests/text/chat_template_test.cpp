// Chat templates as the engine uses them: what a template is given, and the reports J1 to J8 of
// other engines' users, each as a test.

#include "text/chat_template.h"

#include <gtest/gtest.h>

#include "text/render_template.h"

namespace cera::text {
namespace {

constexpr const char* kChatMl =
    "{% for m in messages %}<|im_start|>{{ m.role }}\n{{ m.content }}<|im_end|>\n{% endfor %}"
    "{% if add_generation_prompt %}<|im_start|>assistant\n{% endif %}";

TemplateInputs conversation(Json messages) {
  TemplateInputs inputs;
  inputs.messages = json(std::move(messages));
  return inputs;
}

TEST(ChatTemplate, RendersAConversation) {
  TemplateInputs inputs = conversation({{{"role", "user"}, {"content", "Hi <|im_end|>"}}});
  EXPECT_EQ(marked(render(kChatMl, inputs)),
            "<|im_start|>user\n«Hi <|im_end|>»<|im_end|>\n<|im_start|>assistant\n");
  inputs.add_generation_prompt = false;
  EXPECT_EQ(marked(render(kChatMl, inputs)), "<|im_start|>user\n«Hi <|im_end|>»<|im_end|>\n");
}

TEST(ChatTemplate, KeepsItsSource) {
  EXPECT_EQ((*ChatTemplate::parse("a\r\n{{ b }}\n"))->source(), "a\r\n{{ b }}\n");
}

TEST(ChatTemplate, WhatIsNotGiven) {
  const char* source =
      "{{ messages }}{{ tools is none }}{{ documents is none }}{{ add_generation_prompt }}"
      "[{{ bos_token }}{{ eos_token }}]{{ enable_thinking is defined }}";
  EXPECT_EQ(shown(render(source, TemplateInputs{})), "[]TrueTrueTrue[]False");
  TemplateInputs inputs;
  inputs.messages = inputs.tools = inputs.arguments = json(nullptr);
  EXPECT_EQ(shown(render(source, inputs)), "[]TrueTrueTrue[]False");
  inputs.tools = json(Json::array());
  EXPECT_EQ(shown(render("{{ tools }}", inputs)), "[]");
}

TEST(ChatTemplate, ArgumentsAreVariables) {
  TemplateInputs inputs;
  inputs.arguments =
      json({{"enable_thinking", false}, {"n", 3}, {"documents", {"d"}}, {"eos_token", "mine"}});
  inputs.eos_token = "</s>";
  EXPECT_EQ(
      marked(render("{{ enable_thinking }}{{ n + 1 }}{{ documents[0] }}{{ eos_token }}", inputs)),
      "False4«dmine»");
  inputs.arguments = json({{"range", 5}});
  EXPECT_EQ(shown(render("{{ range }}", inputs)), "5");
}

TEST(ChatTemplate, WrongInputsAreNamed) {
  TemplateInputs inputs;
  inputs.messages = json({{"role", "user"}});
  EXPECT_EQ(shown(render("x", inputs)), "error at messages: must be an array");
  inputs = {};
  inputs.tools = json("f");
  EXPECT_EQ(shown(render("x", inputs)), "error at tools: must be an array or null");
  inputs = {};
  inputs.arguments = json(Json::array());
  EXPECT_EQ(shown(render("x", inputs)), "error at template arguments: must be an object");
  inputs.arguments = json({{"tools", 1}});
  EXPECT_EQ(shown(render("x", inputs)),
            "error at template arguments: 'tools' is not a template argument");
  EXPECT_EQ(render("x", inputs).error().code, ErrorCode::invalid_argument);
}

TEST(ChatTemplate, MessagesArePassedAsTheyAre) {
  const TemplateInputs inputs = conversation(
      {{{"role", "assistant"}, {"content", nullptr}, {"x", {1, 2.5, true}}}, 5, "text"});
  EXPECT_EQ(shown(render("{% for m in messages %}{{ m }}{% endfor %}", inputs)),
            "{'role': 'assistant', 'content': None, 'x': [1, 2.5, True]}5text");
}

TEST(ChatTemplate, TheClockCanBeFrozen) {
  TemplateInputs inputs;
  inputs.now_unix_s = 86400 * 15;  // the middle of January 1970 in every time zone
  EXPECT_EQ(shown(render("{{ strftime_now('%b %Y %%') }}", inputs)), "Jan 1970 %");
  inputs.now_unix_s.reset();
  EXPECT_EQ(shown(render("{{ strftime_now('%Y') | int > 2024 }}", inputs)), "True");
}

// J1: loop controls; a bad template is an error with its place, and the next request works.
TEST(ChatTemplateReports, J1LoopControlsAndBadTemplates) {
  const TemplateInputs inputs = conversation({{{"role", "a"}}, {{"role", "b"}}, {{"role", "c"}}});
  EXPECT_EQ(shown(render("{% for m in messages %}{% if m.role == 'b' %}{% break %}{% endif %}{{ "
                         "m.role }}{% endfor %}",
                         inputs)),
            "a");
  EXPECT_EQ(ChatTemplate::parse("{% for m in messages %}\n{% break").error().text(),
            "line 2, column 9: expected '%}', found 'end of template'");
  EXPECT_EQ(shown(render("{{ messages | length }}", inputs)), "3");
}

// J2: the filters, methods and functions that other engines lacked.
TEST(ChatTemplateReports, J2NothingIsMissing) {
  const TemplateInputs inputs =
      conversation({{{"role", "user"}, {"content", "é  x"}, {"n", nullptr}}, {{"role", "tool"}}});
  const std::pair<const char*, const char*> cases[] = {
      {"{{ messages | rejectattr('role', 'eq', 'tool') | list | length }}", "1"},
      {"{{ messages | map(attribute='role') | reject('in', ['tool']) | join }}", "user"},
      {"{{ messages[0].content | tojson(ensure_ascii=False) }}", "\"é  x\""},
      {"{{ messages[0].content | tojson(ensure_ascii=True) }}", "\"\\u00e9  x\""},
      {"{{ messages[::-1][0].role ~ messages[-1:][0].role ~ messages[1:] | length }}", "tooltool1"},
      {"{{ messages[0].content.split('  ')[-1].lstrip('x') }}", ""},
      {"{{ (messages[0].content or '').strip().startswith('é') }}", "True"},
      {"{{ messages[0].n.split('x') }}",
       "error at line 1, column 23: 'None' has no attribute 'split'"},
      {"{% generation %}x{% endgeneration %}", "x"},
  };
  for (const auto& [source, expected] : cases)
    EXPECT_EQ(shown(render(source, inputs)), expected) << source;
}

// J4: a malformed arguments string in the history is a string like any other.
TEST(ChatTemplateReports, J4MalformedArgumentsAreText) {
  const TemplateInputs inputs =
      conversation({{{"role", "assistant"},
                     {"tool_calls", {{{"function", {{"name", "f"}, {"arguments", "{\"a\":"}}}}}}}});
  EXPECT_EQ(
      marked(render("{% for c in messages[0].tool_calls %}{{ c.function.name }}({{ "
                    "c.function.arguments }}){{ c.function.arguments is string }}{% endfor %}",
                    inputs)),
      "«f»(«{\"a\":»)True");
}

// J5: an assistant prefill given as parts reaches the template like any other content.
TEST(ChatTemplateReports, J5PartsOfTheLastAssistantMessage) {
  const char* source =
      "{% for m in messages %}{% if m.content is string %}{{ m.content }}{% else %}"
      "{% for p in m.content if p.type == 'text' %}{{ p.text }}{% endfor %}{% endif %}{% endfor %}";
  const Json parts = {{{"type", "text"}, {"text", "Sure"}}};
  EXPECT_EQ(marked(render(source, conversation({{{"role", "assistant"}, {"content", parts}}}))),
            "«Sure»");
  EXPECT_EQ(marked(render(source, conversation({{{"role", "assistant"}, {"content", "Sure"}}}))),
            "«Sure»");
}

// J7: rendering is a function of the inputs, so that rendered prefixes can be compared between
// turns.
TEST(ChatTemplateReports, J7RenderingIsReproducible) {
  const Json first = {{{"role", "user"}, {"content", "a"}}};
  Json second = first;
  second.push_back({{"role", "assistant"}, {"content", "b"}});
  TemplateInputs shorter = conversation(first), longer = conversation(second);
  shorter.add_generation_prompt = longer.add_generation_prompt = false;
  const std::string one = shown(render(kChatMl, shorter)), two = shown(render(kChatMl, longer));
  EXPECT_EQ(one, shown(render(kChatMl, shorter)));
  EXPECT_TRUE(two.starts_with(one));
}

// J8: a template can reach nothing but its inputs.
TEST(ChatTemplateReports, J8NoEscape) {
  for (const char* source :
       {"{{ ''.__class__ }}", "{{ messages.__class__.__mro__ }}", "{{ ''['__class__'] }}",
        "{{ ''|attr('__class__') }}", "{{ range.__globals__ }}", "{{ self }}{{ self.__init__ }}",
        "{{ '{0.__class__}'.format(1) }}", "{{ cycler.__init__.__globals__ }}", "{{ lipsum }}",
        "{{ namespace(__class__=1) }}", "{{ open('/etc/passwd') }}", "{{ config }}"}) {
    const std::string result = shown(render(source));
    EXPECT_TRUE(result.empty() || result.starts_with("error at ")) << source << " gives " << result;
  }
}

}  // namespace
}  // namespace cera::text
