// Calls whose arguments are text between tags: their values, and the way back from what templates print.
#include <gtest/gtest.h>

#include <cstdlib>
#include <filesystem>

#include "base/file.h"
#include "text/chat_template.h"
#include "unit/text/tool_calls/reading.h"

namespace redpoll::text {
namespace {

// The arguments of a call of `weather` with one parameter.
std::string argument(ToolCallFormat format, const std::string& parameter, const std::string& value) {
  const std::string answer =
      format == ToolCallFormat::kNamedTags
          ? R"(<function name="weather"><param name=")" + parameter + "\">" + value + "</param></function>"
          : "<tool_call>\n<function=weather>\n<parameter=" + parameter + ">\n" + value +
                "\n</parameter>\n</function>\n</tool_call>";
  const Reading reading = read(format, answer);
  EXPECT_EQ(reading.text, "");
  return reading.calls.size() == 1 ? reading.calls[0].arguments : "no call: " + answer;
}

class TagCalls : public testing::TestWithParam<ToolCallFormat> {
 protected:
  static std::string value(const std::string& parameter, const std::string& value) {
    const std::string arguments = argument(GetParam(), parameter, value);
    const std::string before = "{\"" + parameter + "\":";
    EXPECT_TRUE(arguments.starts_with(before) && arguments.ends_with('}')) << arguments;
    return arguments.substr(before.size(), arguments.size() - before.size() - 1);
  }
};
INSTANTIATE_TEST_SUITE_P(Formats, TagCalls, testing::Values(ToolCallFormat::kFunctionTags, ToolCallFormat::kNamedTags),
                         [](const auto& info) {
                           return info.param == ToolCallFormat::kNamedTags ? "Named" : "Function";
                         });

TEST_P(TagCalls, StringsAreWhatIsWritten) {
  EXPECT_EQ(value("city", "5"), R"("5")");
  EXPECT_EQ(value("city", "true"), R"("true")");
  EXPECT_EQ(value("city", ""), R"("")");
  EXPECT_EQ(value("city", "  \"Paris\" "), R"("  \"Paris\" ")");
  EXPECT_EQ(value("city", "[1]"), R"("[1]")");
  EXPECT_EQ(value("city", "\\n 北京 😀"), R"("\\n 北京 😀")");
  EXPECT_EQ(value("unit", "kelvin"), R"("kelvin")");
}

TEST_P(TagCalls, OtherTypesAreJsonOrPython) {
  EXPECT_EQ(value("days", "3"), "3");
  EXPECT_EQ(value("days", " 18446744073709551615 "), "18446744073709551615");
  EXPECT_EQ(value("scale", "1e-05"), "1e-05");
  EXPECT_EQ(value("now", "true"), "true");
  EXPECT_EQ(value("now", "True"), "true");
  EXPECT_EQ(value("now", "False"), "false");
  EXPECT_EQ(value("gone", "None"), "null");
  EXPECT_EQ(value("list", R"([ "a" , 1 ])"), R"(["a",1])");
  EXPECT_EQ(value("list", R"(['a', "it's", 'a "b"', 1.5, None, True])"), R"(["a","it's","a \"b\"",1.5,null,true])");
  EXPECT_EQ(value("more", R"({'a': {'b': []}, 'c': '\n\\\'\x41\u00fc\U0001f600'})"),
            R"({"a":{"b":[]},"c":"\n\\'Aü😀"})");
  EXPECT_EQ(value("place", "{}"), "{}");
  EXPECT_EQ(value("level", "2"), "2");
}

TEST_P(TagCalls, JsonComesAsItIsWritten) {
  EXPECT_EQ(value("days", "12345678901234567890123"), "12345678901234567890123");
  EXPECT_EQ(value("scale", "1.50"), "1.50");
  EXPECT_EQ(value("either", "-1E+2"), "-1E+2");
  EXPECT_EQ(value("list", "[ 1.0 ,\n 1e3 ]"), "[1.0,1e3]");
  EXPECT_EQ(value("more", R"({"b": 1, "a": "\u00fc  \/", "b": 2})"), R"({"b":1,"a":"\u00fc  \/","b":2})");
  EXPECT_EQ(value("more", "{'a': 12345678901234567890123, 'b': [None, 1.50]}"),
            R"({"a":12345678901234567890123,"b":[null,1.50]})");
}

TEST_P(TagCalls, WhatIsNotOfItsTypeIsText) {
  EXPECT_EQ(value("days", "three"), R"("three")");
  EXPECT_EQ(value("list", "['a'"), R"("['a'")");
  EXPECT_EQ(value("more", "{'a': b}"), R"("{'a': b}")");
  EXPECT_EQ(value("more", R"({'a': '\ud800'})"), R"("{'a': '\\ud800'}")");
  EXPECT_EQ(value("now", ""), R"("")");
}

TEST_P(TagCalls, WhereAStringIsPossibleOtherTypesAreTakenIfAllowed) {
  EXPECT_EQ(value("maybe", "null"), "null");
  EXPECT_EQ(value("maybe", "None"), "null");
  EXPECT_EQ(value("maybe", "5"), R"("5")");
  EXPECT_EQ(value("maybe", R"("a")"), R"("\"a\"")");
  EXPECT_EQ(value("either", "5"), "5");
  EXPECT_EQ(value("either", "5 apples"), R"("5 apples")");
  EXPECT_EQ(value("either", "null"), R"("null")");
  EXPECT_EQ(value("code", "1"), R"("1")") << "its enumeration has strings only";
  EXPECT_EQ(value("code", "null"), "null");
  EXPECT_EQ(value("both", "5"), R"("5")") << "strings alone satisfy both";
}

TEST_P(TagCalls, WithoutASchemaItIsJsonIfItCanBe) {
  for (const std::string parameter : {"free", "unknown", "loop", "odd"}) {
    EXPECT_EQ(value(parameter, "5"), "5");
    EXPECT_EQ(value(parameter, R"({"a": [1]})"), R"({"a":[1]})");
    EXPECT_EQ(value(parameter, R"("a")"), R"("a")");
    EXPECT_EQ(value(parameter, "{'a': None}"), R"({"a":null})");
    EXPECT_EQ(value(parameter, "'a'"), R"("'a'")");
    EXPECT_EQ(value(parameter, "a: b"), R"("a: b")");
  }
}

// Were schemas read for each value, or a part of one as often as something refers to it, this would take hours.
TEST(TagCallSchemas, CostAsMuchAsTheyAreLong) {
  constexpr int kNumbers = 50'000;
  json::array names;
  json::object chain{{"last", {{"type", "string"}}}};
  for (int i = 0; i < kNumbers; ++i) {
    names.push_back(json::string("name" + std::to_string(i)));
    const std::string next = i + 1 < kNumbers ? std::to_string(i + 1) : "last";
    chain["link" + std::to_string(i)] = {{"$ref", "#/$defs/" + (next == "last" ? next : "link" + next)}};
  }
  const json::object itself{{"$ref", "#/properties/x"}};
  const json::object properties{{"x", {{"anyOf", {itself, itself}}, {"enum", names}}},
                                {"far", {{"$ref", "#/$defs/link0"}}},
                                {"near", {{"$ref", "#/$defs/link49990"}}}};
  const json::array list{
      {{"function", {{"name", "now"}, {"parameters", {{"properties", properties}, {"$defs", chain}}}}}}};
  const auto tools = std::make_shared<const ToolSchemas>(list);
  std::string answer;
  for (int i = 0; i < 20'000; ++i) answer += R"(<function name="now"><param name="x">5</param></function>)";
  const Reading reading = read_pieces({.format = ToolCallFormat::kNamedTags, .tools = tools}, {answer});
  EXPECT_EQ(reading.calls, std::vector(20'000, (ToolCall{"now", R"({"x":"5"})"})));
  const std::string both = R"(<function name="now"><param name="near">5</param><param name="far">a</param></function>)";
  EXPECT_EQ(read_pieces({.format = ToolCallFormat::kNamedTags, .tools = tools}, {both}),
            one_call("now", R"({"near":"5","far":"a"})"));
}

TEST(NamedTagCalls, ParametersOfToolsWithFreeKeys) {
  EXPECT_EQ(read(ToolCallFormat::kNamedTags,
                 "<function name=\"weather_map\"><param name=\"a\">1</param><param name=\"b\">2</param></function>"),
            one_call("weather_map", R"({"a":"1","b":"2"})"));
  EXPECT_EQ(read(ToolCallFormat::kNamedTags, "<function name=\"now\"><param name=\"a\">1</param></function>"),
            one_call("now", R"({"a":1})"));
}

TEST(NamedTagCalls, KeepTheOrderAndTakeTheLastOfAKeyThatComesTwice) {
  EXPECT_EQ(read(ToolCallFormat::kNamedTags,
                 "<function name=\"weather\"><param name=\"now\">true</param> <param name=\"city\">a</param>\n"
                 "<param name=\"now\">false</param></function>"),
            one_call("weather", R"({"now":false,"city":"a"})"));
}

TEST(NamedTagCalls, SpacesAndQuotesOfTagsMayVary) {
  for (const std::string answer : {R"(<functionname="weather"><paramname="city">a</param></function>)",
                                   "<function  name = 'weather' >\n  <param\nname='city'>a</param>\n</function>"}) {
    EXPECT_EQ(read(ToolCallFormat::kNamedTags, answer), one_call("weather", R"({"city":"a"})"));
  }
}

TEST(NamedTagCalls, SectionsHoldTextAsItIs) {
  const auto city = [](const std::string& value) { return argument(ToolCallFormat::kNamedTags, "city", value); };
  EXPECT_EQ(city("<![CDATA[a < b && c\n</param></function>]]>"), R"({"city":"a < b && c\n</param></function>"})");
  EXPECT_EQ(city("\n <![CDATA[ a&amp;]]> \n"), R"({"city":" a&amp;"})");
  EXPECT_EQ(city("<![CDATA[]]>"), R"({"city":""})");
  EXPECT_EQ(city("<![CDATA[a]]]>"), R"({"city":"a]"})");
  EXPECT_EQ(city("<![CDATA[a]]]]><![CDATA[>b]]>"), R"({"city":"a]]>b"})") << "XML's way to write ]]>";
  EXPECT_EQ(city("<![CDATA[a]]>b]]>"), R"({"city":"a]]>b"})") << "the template's way";
  EXPECT_EQ(city("1 &lt; <![CDATA[&lt;]]> &gt;"), R"({"city":"1 < &lt; >"})");
  EXPECT_EQ(argument(ToolCallFormat::kNamedTags, "list", "<![CDATA[[\"&\", [2]]]]>"), R"({"list":["&",[2]]})");
}

TEST(NamedTagCalls, EntitiesStandForCharactersOutsideOfSections) {
  const auto city = [](const std::string& value) { return argument(ToolCallFormat::kNamedTags, "city", value); };
  EXPECT_EQ(city("&lt;a href=&quot;b&apos;&quot;&gt; &amp;lt; &#252;&#x1F600;"),
            R"({"city":"<a href=\"b'\"> &lt; ü😀"})");
  EXPECT_EQ(city("R&D &nbsp; &; &#; &#xD800; &#0; &#x; &amp &"),
            R"({"city":"R&D &nbsp; &; &#; &#xD800; &#0; &#x; &amp &"})");
  EXPECT_EQ(argument(ToolCallFormat::kNamedTags, "more", "{&quot;a&quot;: 1}"), R"({"more":{"a":1}})");
  EXPECT_EQ(argument(ToolCallFormat::kNamedTags, "more", R"({"a": "&lt;"})"), R"({"more":{"a":"&lt;"}})")
      << "JSON as it stands has not been escaped";
}

TEST(NamedTagCalls, WhatIsNoCallIsText) {
  for (const std::string answer :
       {"<function name=\"weather\">city</function>", "<function name=\"weather'></function>",
        R"(<function name="weather"><param name="">a</param></function>)", "<function name=weather></function>",
        "<function name=\"weather\"><param>a</param></function>", "<function name=\"weather\"/>",
        R"(<function name="weather" x="1"></function>)", "<function name=\"Weather\"></function>",
        R"(<function name="weather"><param name="city"><![CDATA[a</param></function>)",
        "<function name=\"weather\"><param name=\"ci\nty\">a</param></function>",
        "<FUNCTION name=\"weather\"></FUNCTION>"}) {
    EXPECT_EQ(read(ToolCallFormat::kNamedTags, answer), only_text(answer));
  }
}

TEST(FunctionTagCalls, OneLineBreakAtEachEndOfAValueIsNotPartOfIt) {
  const auto city = [](const std::string& value) { return argument(ToolCallFormat::kFunctionTags, "city", value); };
  EXPECT_EQ(city("a\nb"), R"({"city":"a\nb"})");
  EXPECT_EQ(city("\n  a\n"), R"({"city":"\n  a\n"})");
  EXPECT_EQ(city("a &lt; <b> </function>"), R"({"city":"a &lt; <b> </function>"})");
  EXPECT_EQ(read(ToolCallFormat::kFunctionTags,
                 "<tool_call><function=weather><parameter=city>a</parameter></function></tool_call>"),
            one_call("weather", R"({"city":"a"})"));
}

TEST(FunctionTagCalls, WhatIsNoCallIsText) {
  for (const std::string answer :
       {"<function=weather>\n</function>", "<tool_call>\n<function=weather>\n</function>\n",
        "<tool_call>\n<function=weather>\n</tool_call>", "<tool_call><function=weather>a</function></tool_call>",
        "<tool_call><function=weather><parameter=>a</parameter></function></tool_call>",
        R"(<tool_call><function=weather>{"city": "a"}</function></tool_call>)", "<tool_call></tool_call>",
        "<tool_call><function=weather></function><function=now></function></tool_call>"}) {
    EXPECT_EQ(read(ToolCallFormat::kFunctionTags, answer), only_text(answer));
  }
}

// Templates that print earlier calls in the manner of the models' own.
constexpr std::string_view kJsonTemplate =
    "{% for m in messages %}{{ m.content }}{% for c in m.tool_calls %}<tool_call>\n"
    "{\"name\": \"{{ c.function.name }}\", \"arguments\": {{ c.function.arguments | tojson }}}\n</tool_call>{% endfor "
    "%}"
    "{% endfor %}";
constexpr std::string_view kFunctionTemplate =
    "{% for m in messages %}{{ m.content }}{% for c in m.tool_calls %}{{ '<tool_call>\n<function=' + c.function.name + "
    "'>\n' }}"
    "{%- for k, v in c.function.arguments | items %}{{ '<parameter=' + k + '>\n' }}"
    "{{- v | tojson if v is mapping or (v is sequence and v is not string) else v | string }}{{ '\n</parameter>\n' }}"
    "{%- endfor %}{{ '</function>\n</tool_call>' }}{% endfor %}{% endfor %}";
constexpr std::string_view kNamedTemplate =
    "{% for m in messages %}{{ m.content }}{% for c in m.tool_calls %}{{ '<function name=\"' ~ c.function.name ~ '\">' "
    "}}"
    "{%- for k, v in c.function.arguments.items() %}{{ '<param name=\"' ~ k ~ '\">' }}"
    "{%- if v is string and ('<' in v or '&' in v or '\\n' in v) %}{{ '<![CDATA[' + v + ']]>' }}{% else %}{{ v }}{% "
    "endif %}"
    "{{- '</param>' }}{% endfor %}{{ '</function>' }}{% endfor %}{% endfor %}";

constexpr std::string_view kArguments =
    R"({"city":"a <b> & \"c\"\n'd' ]]> & e\\ 北京","days":-3,"scale":1e-05,"now":true,"list":["it's","\"",1.5,null,)"
    R"(false,"ü\n"],"more":{"k":{"l":[]},"m":"n & o"},"gone":null,"maybe":null,"either":2.5,"unit":"kelvin",)"
    R"("place":{"x":[[1]]},"free":"some words"})";

// Two calls of an earlier turn.
json::object assistant_message() {
  const auto call = [](std::string_view name, const json::value& arguments) {
    return json::object{{"type", "function"}, {"function", {{"name", name}, {"arguments", arguments}}}};
  };
  const json::array calls = {call("weather", parse_json(kArguments).value()), call("now", json::object())};
  return {{"role", "assistant"}, {"content", "Now:"}, {"tool_calls", calls}};
}

TEST(ToolCallRoundTrip, WhatTemplatesPrintIsReadBack) {
  const json::array messages = {assistant_message()};
  for (const auto& [format, source] :
       {std::pair(ToolCallFormat::kJson, kJsonTemplate), std::pair(ToolCallFormat::kFunctionTags, kFunctionTemplate),
        std::pair(ToolCallFormat::kNamedTags, kNamedTemplate)}) {
    const auto chat_template = ChatTemplate::compile(source).value();
    EXPECT_EQ(chat_template->tool_call_format(), format);
    const auto rendered = chat_template->render({.messages = messages, .tools = {}, .kwargs = {}});
    ASSERT_TRUE(rendered) << rendered.error().message;
    EXPECT_EQ(read(format, *rendered), (Reading{"Now:", {{"weather", std::string(kArguments)}, {"now", "{}"}}}))
        << *rendered;
  }
}

// A developer's check, as ChatTemplateTest.RendersRealTemplatesAsJinja2Does is. That the prompts explain the markup to
// the model, with tools that are not there, must not look like calls.
TEST(ToolCallRoundTrip, WhatRealTemplatesPrintIsReadBack) {
  const char* folder = std::getenv("REDPOLL_REAL_TEMPLATES");
  if (folder == nullptr) GTEST_SKIP() << "REDPOLL_REAL_TEMPLATES names no folder";
  const json::array messages = {json::object{{"role", "user"}, {"content", "Hello"}}, assistant_message()};
  const ToolCall weather{.name = "weather", .arguments = std::string(kArguments)};
  const ToolCall now{.name = "now", .arguments = "{}"};
  for (const std::string name : {"Qwen-Qwen2.5-7B-Instruct", "Qwen-Qwen3-0.6B", "Qwen3-Coder", "Qwen3.5-4B",
                                 "ibm-granite-granite-4.0", "openbmb-MiniCPM5-1B"}) {
    const auto source = read_file(std::filesystem::path(folder) / (name + ".jinja"));
    ASSERT_TRUE(source) << source.error().message;
    const auto chat_template = ChatTemplate::compile(*source).value();
    const auto prompt = chat_template->render({.messages = messages, .tools = test_tool_list(), .kwargs = {}});
    ASSERT_TRUE(prompt) << prompt.error().message;
    const ToolCallOptions options{.format = chat_template->tool_call_format().value(), .tools = test_tools()};
    EXPECT_EQ(read_pieces(options, {*prompt}).calls, (std::vector{weather, now})) << name << ": " << *prompt;
  }
}

}  // namespace
}  // namespace redpoll::text
