#include "text/chat_template.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <atomic>
#include <cstdlib>
#include <ctime>
#include <sstream>
#include <thread>

#include "base/sha256.h"
#include "unit/text/golden.h"

namespace redpoll::text {
namespace {

using std::chrono::system_clock;
using testing::HasSubstr;
using testing::StartsWith;

struct Rendered {
  std::string outcome;  // "ok", "raised" or "error", as make_template_goldens.py says
  std::string text;
};

class ChatTemplateTest : public testing::Test {
 protected:
  ChatTemplateTest() {
    setenv("TZ", "UTC", 1);
    tzset();
  }

  static Rendered render(std::string_view source, const json::object& context, std::int64_t now = 0) {
    const auto chat_template = ChatTemplate::compile(source);
    if (!chat_template) return {"error", chat_template.error().message};
    const auto text = (*chat_template)->render_context(context, system_clock::from_time_t(now));
    if (text) return {"ok", *text};
    EXPECT_EQ(text.error().code, ErrorCode::kInvalidArgument);
    return {text.error().message.starts_with("chat template failed: ") ? "error" : "raised", text.error().message};
  }

  // A rendering with one user message.
  static Result<std::string> render_hello(std::string_view source, const json::object& kwargs = {},
                                          const json::array& tools = {}) {
    auto chat_template = ChatTemplate::compile(source, {.bos_token = "<s>", .eos_token = "</s>"});
    if (!chat_template) return std::unexpected(chat_template.error());
    const json::array messages = {{{"role", "user"}, {"content", "hello"}}};
    return (*chat_template)->render({.messages = messages, .tools = tools, .kwargs = kwargs});
  }
};

TEST_F(ChatTemplateTest, RendersTenFamiliesAsJinja2Does) {
  const json::value golden = read_golden_json("templates.json");
  const std::int64_t now = golden.at("now").as_int64();
  int num_equal = 0;
  for (const json::value& one : golden.at("renders").as_array()) {
    const auto name = json::value_to<std::string>(one.at("template"));
    const auto context = json::value_to<std::string>(one.at("context"));
    const Rendered rendered =
        render(read_golden("templates/" + name), golden.at("contexts").at(context).as_object(), now);
    EXPECT_EQ(rendered.outcome, json::value_to<std::string>(one.at("outcome"))) << name << " " << context;
    EXPECT_EQ(rendered.text, json::value_to<std::string>(one.at("text"))) << name << " " << context;
    ++num_equal;
  }
  EXPECT_EQ(num_equal, 180);
}

// A developer's check: see tests/golden/text/make_template_goldens.py --fetch.
TEST_F(ChatTemplateTest, RendersRealTemplatesAsJinja2Does) {
  const char* folder = std::getenv("REDPOLL_REAL_TEMPLATES");
  if (folder == nullptr) GTEST_SKIP() << "REDPOLL_REAL_TEMPLATES names no folder";
  const json::value golden = read_golden_json("templates.json");
  std::istringstream lines(read_golden("real_templates.tsv"));
  int num_compared = 0;
  for (std::string line; std::getline(lines, line);) {
    if (line.starts_with('#')) continue;
    std::istringstream fields(line);
    std::string name;
    std::string source_hash;
    std::string context;
    std::string outcome;
    std::string text_hash;
    fields >> name >> source_hash >> context >> outcome >> text_hash;
    // Joins strings marked as safe HTML with others, which Jinja2 then escapes; nobody wants that in a prompt.
    if (name == "meetkai-functionary-medium-v3.1.jinja" && context.ends_with("/tools")) continue;
    const Result<std::string> source = read_file(std::filesystem::path(folder) / name);
    if (!source || sha256_hex(*source).substr(0, 16) != source_hash) continue;  // another version
    const Rendered rendered =
        render(*source, golden.at("contexts").at(context).as_object(), golden.at("now").as_int64());
    EXPECT_EQ(rendered.outcome, outcome) << name << " " << context << ": " << rendered.text;
    EXPECT_EQ(sha256_hex(rendered.text).substr(0, 16), text_hash) << name << " " << context;
    ++num_compared;
  }
  EXPECT_GT(num_compared, 900);
}

TEST_F(ChatTemplateTest, GivesTemplatesTheVariablesThatTransformersGives) {
  EXPECT_EQ(*render_hello("{{ bos_token }}{{ messages[0].content }}{{ eos_token }}"), "<s>hello</s>");
  EXPECT_EQ(*render_hello("{{ tools }} {{ documents }} {{ add_generation_prompt }}"), "None None True");
  EXPECT_EQ(*render_hello("{{ tools is none }} {{ enable_thinking is defined }}"), "True False");
  EXPECT_EQ(*render_hello("{{ tools[0].name }}", {}, {{{"name", "f"}}}), "f");
}

TEST_F(ChatTemplateTest, TakesFurtherVariablesButNotTheConversation) {
  EXPECT_EQ(*render_hello("{{ enable_thinking }} {{ add_generation_prompt }} {{ bos_token }}",
                          {{"enable_thinking", false}, {"add_generation_prompt", false}, {"bos_token", "B"}}),
            "False False B");
  const auto text = render_hello("x", {{"messages", json::array()}});
  ASSERT_FALSE(text);
  EXPECT_EQ(text.error().code, ErrorCode::kInvalidArgument);
  EXPECT_EQ(text.error().param, "chat_template_kwargs");
  EXPECT_EQ(text.error().message, "'chat_template_kwargs' may not set 'messages', which the request has a field for");
}

TEST_F(ChatTemplateTest, KeepsKeyOrderAndTheSpellingOfNumbers) {
  const auto context = parse_json(R"({"v": {"zeta": 1.0, "alpha": [1, 1e-05, 12345678901234567890, -0.5, 1e300]}})");
  const std::string printed = R"({"zeta": 1.0, "alpha": [1, 1e-05, 12345678901234567890, -0.5, 1e+300]})";
  EXPECT_EQ(render("{{ v|tojson }}", context->as_object()).text, printed);
}

TEST_F(ChatTemplateTest, PassesAllArgumentsOfToJson) {
  EXPECT_EQ(render(R"({{ {"c":"é"}|tojson(ensure_ascii=False) }})", {}).text, R"({"c": "é"})");
  EXPECT_EQ(render(R"({{ {"c":"é"}|tojson(ensure_ascii=True) }})", {}).text, R"({"c": "\u00e9"})");
  EXPECT_EQ(render(R"({{ {"b":1,"a":[2]}|tojson(indent=1, separators=(';', '='), sort_keys=true) }})", {}).text,
            "{\n \"a\"=[\n  2\n ];\n \"b\"=1\n}");
}

TEST_F(ChatTemplateTest, TellsARefusalFromAFault) {
  const auto refused = render_hello("{{ raise_exception('Only two roles, please: \"user\" & assistant') }}");
  ASSERT_FALSE(refused);
  EXPECT_EQ(refused.error().code, ErrorCode::kInvalidArgument);
  EXPECT_EQ(refused.error().message, "Only two roles, please: \"user\" & assistant");
  EXPECT_EQ(refused.error().param, "messages");

  const auto fault = render_hello("\n{{ messages[0].nothing.at_all }}");
  ASSERT_FALSE(fault);
  EXPECT_EQ(fault.error().code, ErrorCode::kInvalidArgument);
  EXPECT_EQ(fault.error().message, "chat template failed: undefined value (line 2)");
}

TEST_F(ChatTemplateTest, NamesTheLineOfABrokenTemplate) {
  const auto broken = ChatTemplate::compile("a\nb\n{% if x %}");
  ASSERT_FALSE(broken);
  EXPECT_EQ(broken.error().code, ErrorCode::kInvalidArgument);
  EXPECT_EQ(broken.error().message,
            "chat template does not parse: syntax error: unexpected end of input, expected end of block (line 3)");
  EXPECT_THAT(ChatTemplate::compile("{{ \xff }}").error().message, HasSubstr("not valid UTF-8 at byte 3"));
}

struct Bomb {
  const char* name;
  const char* source;
  const char* message;
};

class Bombs : public testing::TestWithParam<Bomb> {};
INSTANTIATE_TEST_SUITE_P(
    Hostile, Bombs,
    testing::Values(
        Bomb{"loops", "{% for a in range(9999) %}{% for b in range(9999) %}{% set c = a %}{% endfor %}{% endfor %}",
             "it takes too many steps"},
        Bomb{"range", "{% for a in range(99999999999) %}x{% endfor %}", "range"},
        Bomb{"output", "{% for a in range(2000) %}{{ 'x' * 10000 }}{% endfor %}", "the output is longer than 16 MB"},
        Bomb{"multiplication", "{{ 'x' * 99999999999 }}", "it takes too many steps"},
        Bomb{"doubling",
             "{% set ns = namespace(s='xxxxxxxx') %}{% for i in range(60) %}{% set ns.s = ns.s ~ ns.s %}{% endfor %}",
             "it takes too many steps"},
        Bomb{"macro", "{% macro f(x) %}{{ f(x) }}{% endmacro %}{{ f(1) }}", "recursion limit exceeded"},
        Bomb{"mutual", "{% macro f() %}{{ g() }}{% endmacro %}{% macro g() %}{{ f() }}{% endmacro %}{{ f() }}",
             "recursion limit exceeded"},
        Bomb{"recursive_loop", "{% for x in [[1]] recursive %}{{ loop([[1]]) }}{% endfor %}",
             "recursion limit exceeded"},
        Bomb{"tojson", "{% set v = range(5000)|list %}{% for i in range(5000) %}{% set x = v|tojson %}{% endfor %}",
             "it takes too many steps"},
        Bomb{"replace",
             "{% set s = 'a' * 100000 %}{% for i in range(9999) %}{% set x = s.replace('a', s) %}{% endfor %}",
             "it takes too many steps"},
        Bomb{"include", "{% include 'chat' %}", "recursion limit exceeded"}),
    [](const auto& info) { return info.param.name; });

TEST_P(Bombs, EndSoonAndWithAReason) {
  const auto chat_template = ChatTemplate::compile(GetParam().source);
  ASSERT_TRUE(chat_template) << chat_template.error().message;
  const std::clock_t start = std::clock();  // of this process, which does nothing else
  const auto text = (*chat_template)->render_context({}, system_clock::now());
  EXPECT_LT(static_cast<double>(std::clock() - start) / CLOCKS_PER_SEC, 2.0);
  ASSERT_FALSE(text);
  EXPECT_EQ(text.error().code, ErrorCode::kInvalidArgument);
  EXPECT_THAT(text.error().message, StartsWith("chat template failed: "));
  EXPECT_THAT(text.error().message, HasSubstr(GetParam().message));
}

TEST_F(ChatTemplateTest, RefusesATemplateNestedWithoutEnd) {
  std::string source = "{{ ";
  for (int i = 0; i < 100000; ++i) source += '(';
  const auto deep = ChatTemplate::compile(source);
  ASSERT_FALSE(deep);
  EXPECT_THAT(deep.error().message, StartsWith("chat template does not parse: "));
}

TEST_F(ChatTemplateTest, RendersALongConversationWithinItsBounds) {
  json::array messages;
  for (int i = 0; i < 2000; ++i) {
    messages.push_back({{"role", i % 2 == 0 ? "user" : "assistant"}, {"content", std::string(500, 'x')}});
  }
  const auto chat_template = ChatTemplate::compile(read_golden("templates/qwen3_like.jinja"));
  const auto text = (*chat_template)->render({.messages = messages, .tools = {}, .kwargs = {}});
  ASSERT_TRUE(text) << text.error().message;
  EXPECT_GT(text->size(), 1000000U);
}

TEST_F(ChatTemplateTest, ServesTwoThreadsAtOnceEachAtItsOwnTime) {
  const auto chat_template = ChatTemplate::compile("{{ strftime_now('%Y') }}{% for i in range(200) %}{% endfor %}");
  std::atomic<int> num_wrong = 0;
  std::vector<std::thread> threads;
  for (const auto& [time, year] : {std::pair(0, "1970"), std::pair(1764428400, "2025")}) {
    threads.emplace_back([&, time, year] {
      for (int i = 0; i < 300; ++i) {
        if (*(*chat_template)->render_context({}, system_clock::from_time_t(time)) != year) ++num_wrong;
      }
    });
  }
  for (std::thread& thread : threads) thread.join();
  EXPECT_EQ(num_wrong, 0);
}

TEST_F(ChatTemplateTest, PrintsLocalTime) {
  setenv("TZ", "UTC-05:30", 1);  // POSIX: east of Greenwich is negative
  tzset();
  EXPECT_EQ(render("{{ strftime_now('%Y-%m-%d %H:%M') }}", {}, 1764428400).text, "2025-11-29 20:30");
}

TEST_F(ChatTemplateTest, ARefusalThatRepeatsTheConversationIsCutShort) {
  const auto compiled = ChatTemplate::compile("{{ raise_exception('cannot read ' ~ messages[0].content) }}");
  ASSERT_TRUE(compiled);
  const json::array messages = {json::object{{"role", "user"}, {"content", std::string(100'000, 'x')}}};
  const auto rendered = (*compiled)->render({.messages = messages, .tools = {}, .kwargs = {}});
  ASSERT_FALSE(rendered);
  EXPECT_TRUE(rendered.error().message.starts_with("cannot read xxx"));
  EXPECT_LE(rendered.error().message.size(), 500U);
}

}  // namespace
}  // namespace redpoll::text
