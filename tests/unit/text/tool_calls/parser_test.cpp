// What holds for every format, and what the JSON format alone has.
#include "text/tool_calls/parser.h"

#include <gtest/gtest.h>

#include <random>

#include "unit/text/tool_calls/reading.h"

namespace redpoll::text {
namespace {

// A call of `now` and one of `weather` for a city, in each format.
struct Spelling {
  ToolCallFormat format;
  std::string now;
  std::string weather;
};

const std::vector<Spelling>& spellings() {
  static const std::vector<Spelling> kSpellings = {
      {ToolCallFormat::kJson, "<tool_call>\n{\"name\": \"now\", \"arguments\": {}}\n</tool_call>",
       "<tool_call>\n{\"name\": \"weather\", \"arguments\": {\"city\": \"Zürich\"}}\n</tool_call>"},
      {ToolCallFormat::kFunctionTags, "<tool_call>\n<function=now>\n</function>\n</tool_call>",
       "<tool_call>\n<function=weather>\n<parameter=city>\nZürich\n</parameter>\n</function>\n</tool_call>"},
      {ToolCallFormat::kNamedTags, "<function name=\"now\"></function>",
       "<function name=\"weather\"><param name=\"city\">Zürich</param></function>"}};
  return kSpellings;
}

const ToolCall kNow{.name = "now", .arguments = "{}"};
const ToolCall kWeather{.name = "weather", .arguments = R"({"city":"Zürich"})"};

TEST(ToolCallParser, ReadsCallsInOrder) {
  for (const auto& [format, now, weather] : spellings()) {
    EXPECT_EQ(read(format, now), (Reading{"", {kNow}}));
    EXPECT_EQ(read(format, join({weather, "\n", now, weather})), (Reading{"", {kWeather, kNow, kWeather}}));
  }
}

TEST(ToolCallParser, TextAroundCallsStaysAsItIs) {
  for (const auto& [format, now, weather] : spellings()) {
    EXPECT_EQ(read(format, join({"Let me see.\n\n", now, "\n"})), (Reading{"Let me see.\n\n", {kNow}}));
    EXPECT_EQ(read(format, join({"  Öl: ", now, " then ", weather, "."})),
              (Reading{"  Öl:  then .", {kNow, kWeather}}));
  }
}

TEST(ToolCallParser, WhiteSpaceAloneIsDroppedBesideCallsOnly) {
  for (const auto& [format, now, weather] : spellings()) {
    EXPECT_EQ(read(format, join({"\n\n", now, " \t\n", weather, "\n"})), (Reading{"", {kNow, kWeather}}));
    EXPECT_EQ(read(format, "\n \n"), only_text("\n \n"));
    EXPECT_EQ(read(format, "\n a \n"), only_text("\n a \n"));
    EXPECT_EQ(read(format, ""), only_text(""));
  }
}

TEST(ToolCallParser, ACallThatIsCutOffIsText) {
  for (const auto& [format, now, weather] : spellings()) {
    for (std::size_t length = 0; length < weather.size(); ++length) {
      const std::string part = weather.substr(0, length);
      const ToolCallOptions options{.format = format, .tools = test_tools()};
      EXPECT_EQ(read_pieces(options, {"\n", part}), only_text("\n" + part));
      EXPECT_EQ(read_pieces(options, {now, "\n", part}), (Reading{length == 0 ? "" : "\n" + part, {kNow}}));
    }
  }
}

TEST(ToolCallParser, ACallOfAnUnknownToolIsText) {
  for (const auto& [format, now, weather] : spellings()) {
    const ToolCallOptions none{.format = format, .tools = std::make_shared<const ToolSchemas>(json::array())};
    const std::string answer = join({"a ", now, "\n", weather, "\n"});
    EXPECT_EQ(read(none, answer), only_text(answer));
  }
}

TEST(ToolCallParser, MarkupWithAByteLostIsTextOrAnotherCall) {
  for (const auto& [format, now, weather] : spellings()) {
    for (std::size_t lost = 0; lost < now.size(); ++lost) {
      std::string answer = now;
      answer.erase(lost, 1);
      const Reading reading = read(format, answer);
      EXPECT_EQ(reading, reading.calls.empty() ? only_text(answer) : (Reading{"", {kNow}}));
    }
  }
}

TEST(ToolCallParser, ACallAfterMarkupThatWentWrongIsRead) {
  for (const auto& [format, now, weather] : spellings()) {
    for (const std::string wrong :
         {"<", "<<", "<tool_call", "<tool_call>", "<tool_call><", "<tool_call>\n\n", "<tool_call>\n{\"a\": \"<",
          "<tool_call><function=now></function>", "<function", "<function=", "<function=no",
          "<function name=", "<function name=\"n", "<function name=\"now\"><",
          R"(<function name="now"><param name="a">b</param><)", "<b>"}) {
      EXPECT_EQ(read(format, wrong + now), (Reading{wrong, {kNow}})) << wrong;
    }
  }
}

TEST(ToolCallParser, HoldsBackNoMoreThanMayBeACall) {
  for (const auto& [format, now, weather] : spellings()) {
    ToolCallParser parser({.format = format, .tools = test_tools()});
    EXPECT_EQ(parser.push("if a ").text, "if a ");
    EXPECT_EQ(parser.push("< b").text, "< b");
    EXPECT_EQ(parser.push(" <").text, " ");
    EXPECT_EQ(parser.push("br>").text, "<br>");
    EXPECT_EQ(parser.push(weather.substr(0, 8)).text, "");
    EXPECT_EQ(parser.push("!").text, weather.substr(0, 8) + "!");
    EXPECT_EQ(parser.push("\n").text, "\n");
  }
}

TEST(ToolCallParser, ShowsANameThatIsNoToolsAtItsFirstWrongByte) {
  ToolCallParser tags({.format = ToolCallFormat::kFunctionTags, .tools = test_tools()});
  EXPECT_EQ(tags.push("<tool_call><function=weather_m").text, "");
  EXPECT_EQ(tags.push("o").text, "<tool_call><function=weather_mo");
  ToolCallParser names({.format = ToolCallFormat::kNamedTags, .tools = test_tools()});
  EXPECT_EQ(names.push("<function name=\"weather").text, "");
  EXPECT_EQ(names.push("s").text, "<function name=\"weathers");
  EXPECT_EQ(names.push(" <function name=\"weather_\"").text, " <function name=\"weather_\"");
}

TEST(ToolCallParser, NothingComesAfterTheLastCallThatIsWanted) {
  for (const auto& [format, now, weather] : spellings()) {
    const ToolCallOptions options{.format = format, .tools = test_tools(), .max_calls = 1};
    EXPECT_EQ(read(options, join({"a", now, "b", weather, "c<"})), (Reading{"a", {kNow}}));
    ToolCallParser parser(options);
    EXPECT_FALSE(parser.finished());
    EXPECT_EQ(parser.push(now + "b").calls.size(), 1U);
    EXPECT_TRUE(parser.finished());
    EXPECT_EQ(parser.push("b").text + parser.flush(), "");
  }
}

TEST(ToolCallParser, RandomAnswersDoNotDependOnCutsAndLoseNothing) {
  const std::vector<std::string> parts = {"<tool_call>",
                                          "</tool_call>",
                                          "<function=",
                                          "now",
                                          "weather",
                                          ">",
                                          "<parameter=",
                                          "city",
                                          "</parameter>",
                                          "</function>",
                                          "<function name=\"",
                                          "\"",
                                          "<param name=\"",
                                          "</param>",
                                          "<![CDATA[",
                                          "]]>",
                                          "\n",
                                          " ",
                                          R"({"name": "now")",
                                          "}",
                                          "\"arguments\": {",
                                          "ü",
                                          "<",
                                          "\\"};
  std::mt19937 random(11);
  const auto below = [&](std::size_t limit) {
    return std::uniform_int_distribution<std::size_t>(0, limit - 1)(random);
  };
  for (int round = 0; round < 4000; ++round) {
    const Spelling& spelling = spellings()[below(3)];
    const ToolCallOptions options{.format = spelling.format, .tools = test_tools()};
    std::string answer;
    for (std::size_t i = below(25); i > 0; --i)
      answer += below(12) == 0 ? spelling.weather : parts[below(parts.size())];
    const Reading whole = read_pieces(options, {answer});
    EXPECT_EQ(read_pieces(options, bytes_of(answer)), whole) << answer;
    const std::size_t first = below(answer.size() + 1);
    const std::size_t second = first + below(answer.size() - first + 1);
    const std::string_view view = answer;
    EXPECT_EQ(read_pieces(options, {view.substr(0, first), view.substr(first, second - first), view.substr(second)}),
              whole)
        << answer;
    if (whole.calls.empty()) {
      EXPECT_EQ(whole.text, answer);
    }
    const ToolCallOptions none{.format = spelling.format, .tools = std::make_shared<const ToolSchemas>(json::array())};
    EXPECT_EQ(read_pieces(none, bytes_of(answer)), only_text(answer));
  }
}

// Were any of it read twice for each byte, this would take hours.
TEST(ToolCallParser, CostsAsMuchAsTheAnswerIsLong) {
  constexpr std::size_t kBytes = 3'000'000;
  const auto repeated = [](std::string_view text) {
    std::string out;
    while (out.size() < kBytes) out += text;
    return out;
  };
  for (const auto& [format, now, weather] : spellings()) {
    const ToolCallOptions options{.format = format, .tools = test_tools()};
    const std::size_t value = weather.find("Zürich");
    std::string long_call = weather;
    const std::string city = repeated("a <b> & ]] ");
    long_call.replace(value, std::string("Zürich").size(), city);
    EXPECT_EQ(read_pieces(options, bytes_of(long_call)), one_call("weather", R"({"city":")" + city + "\"}"));
    const std::string cut_off = long_call.substr(0, value + city.size());
    for (const std::string& answer : {cut_off, repeated("<"), repeated("<tool_call>"), repeated("<function name=\"w"),
                                      repeated(" "), repeated("<tool_call><function="), repeated("<tool_call>{")}) {
      EXPECT_TRUE(read_pieces(options, bytes_of(answer)) == only_text(answer)) << answer.substr(0, 60);
    }
    EXPECT_EQ(read_pieces(options, bytes_of(repeated(now))).calls.size(), repeated(now).size() / now.size());
  }
}

// Were all tools compared with each byte of a name, this would take minutes.
TEST(ToolCallParser, NamesCostLittleHoweverManyToolsThereAre) {
  constexpr int kTools = 50'000;
  json::array list;
  for (int i = 0; i < kTools; ++i) {
    const json::object function{{"name", "tool" + std::to_string(kTools + i)}};
    list.push_back(json::object{{"function", function}});
  }
  const auto tools = std::make_shared<const ToolSchemas>(std::move(list));
  for (const auto& [format, begin] : {std::pair(ToolCallFormat::kFunctionTags, "<tool_call><function="),
                                      std::pair(ToolCallFormat::kNamedTags, "<function name=\"")}) {
    std::string answer;
    for (int i = 0; i < 50'000; ++i) answer += begin + ("tool" + std::to_string(kTools + i));
    EXPECT_TRUE(read_pieces({.format = format, .tools = tools}, {answer}) == only_text(answer));
  }
}

TEST(JsonToolCalls, TakesNameAndArgumentsInAnyOrderAndSpacing) {
  const auto reads = [](std::string_view object) {
    return read(ToolCallFormat::kJson, "<tool_call>" + std::string(object) + "</tool_call>");
  };
  EXPECT_EQ(reads(R"({"arguments":{"b":1,"a":[true,null,{"c":"d"}]},"name":"now"})"),
            one_call("now", R"({"b":1,"a":[true,null,{"c":"d"}]})"));
  EXPECT_EQ(reads(" \n {\n \"name\" : \"now\" ,\n \"arguments\" : { \"a\" : [ -1 ,\t2 ] }\n}\n"),
            one_call("now", R"({"a":[-1,2]})"));
  EXPECT_EQ(reads(R"({"name": "now"})"), one_call("now", "{}"));
  EXPECT_EQ(reads(R"({"name": "now", "arguments": null, "id": 7})"), one_call("now", "{}"));
  EXPECT_EQ(reads(R"({"name": "now", "arguments": "{\"a\": \"\u00fc\"}"})"), one_call("now", R"({"a":"ü"})"));
  EXPECT_EQ(reads(R"({"\u006eame": "n\u006fw", "\u0061rguments": {"a": 1}})"), one_call("now", R"({"a":1})"));
}

TEST(JsonToolCalls, ParametersIsAnotherNameForArguments) {
  const auto reads = [](std::string_view object) {
    return read(ToolCallFormat::kJson, "<tool_call>" + std::string(object) + "</tool_call>");
  };
  EXPECT_EQ(reads(R"({"name":"now","parameters":{"x":1}})"), one_call("now", R"({"x":1})"));
  EXPECT_EQ(reads(R"({"parameters": "{\"x\": 1}", "name": "now"})"), one_call("now", R"({"x":1})"));
  EXPECT_EQ(reads(R"({"name": "now", "parameters": null})"), one_call("now", "{}"));
}

TEST(JsonToolCalls, ArgumentsComeAsTheyAreWritten) {
  for (const std::string arguments :
       {R"({"a":12345678901234567890123})", R"({"a":[1.0,1.50,-0.0,-1e3,1E+2,0.1000000000000000055]})",
        R"({"a":"\u00fc\/ \" { , \\"})", R"({"b":1,"a":2,"b":{"a":3,"a":[]}})", R"({"":{"":""}})", "{}"}) {
    EXPECT_EQ(read(ToolCallFormat::kJson, R"(<tool_call>{"name":"now","arguments":)" + arguments + "}</tool_call>"),
              one_call("now", arguments));
    EXPECT_EQ(read(ToolCallFormat::kJson, R"(<tool_call>{"arguments":[],"arguments":)" + arguments +
                                              R"(,"other":[{"arguments":{"a":0}}],"name":"now"}</tool_call>)"),
              one_call("now", arguments))
        << "of what comes twice, the last";
    const std::string as_text = dump_json(json::value(json::string(arguments)));
    EXPECT_EQ(read(ToolCallFormat::kJson, R"(<tool_call>{"name":"now","arguments":)" + as_text + "}</tool_call>"),
              one_call("now", arguments));
  }
}

TEST(JsonToolCalls, MarkupInsideStringsIsPartOfThem) {
  EXPECT_EQ(read(ToolCallFormat::kJson,
                 R"(<tool_call>{"name":"now","arguments":{"a":"</tool_call> } ] \" <tool_call>{\\"}}</tool_call>!)"),
            (Reading{"!", {{"now", R"({"a":"</tool_call> } ] \" <tool_call>{\\"})"}}}));
}

TEST(JsonToolCalls, WhatIsNoCallIsText) {
  for (const std::string object : {R"({"name": "now", "arguments": [1]})",
                                   R"({"name": "now", "arguments": "a"})",
                                   R"({"name": "then"})",
                                   R"({"name": 1})",
                                   R"({"arguments": {}})",
                                   R"({})",
                                   R"([{"name": "now"}])",
                                   R"({"name": "now",})",
                                   R"({"name": "now"]}})",
                                   "{\"name\": \"n\now\"}",
                                   R"({'name': 'now'})",
                                   R"({"name": "now"} {"name": "now"})",
                                   R"({"name": "now"}})",
                                   R"(now)",
                                   R"({"name": "now", "id": 7})",
                                   R"({"name": "now", "argument": {"a": 1}})",
                                   R"({"name": "now", "arguments": {"a": 1}, "parameters": {}})",
                                   R"({"name": "now", "parameters": [1]})",
                                   R"({"name": "now", "arguments": {"a": NaN}})",
                                   R"({"name": "\ud800now"})"}) {
    const std::string answer = "<tool_call>" + object + "</tool_call>";
    EXPECT_EQ(read(ToolCallFormat::kJson, answer), only_text(answer));
  }
}

TEST(JsonToolCalls, DepthIsBounded) {
  const std::string deep = R"(<tool_call>{"name":"now","arguments":{"a":)" + std::string(100'000, '[') +
                           std::string(100'000, ']') + "}}</tool_call>";
  EXPECT_EQ(read_pieces({.format = ToolCallFormat::kJson, .tools = test_tools()}, {deep}), only_text(deep));
}

}  // namespace
}  // namespace redpoll::text
