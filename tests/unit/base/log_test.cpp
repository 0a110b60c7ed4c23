#include "base/log.h"

#include <gmock/gmock.h>

#include <thread>

#include "base/json.h"

namespace redpoll {
namespace {

using testing::HasSubstr;
using testing::MatchesRegex;

class LogTest : public testing::Test {
 protected:
  void TearDown() override { configure_log({}); }

  // What one call writes to standard error.
  static std::string logged(LogLevel level, std::string_view message, std::initializer_list<LogField> fields = {}) {
    testing::internal::CaptureStderr();
    log(level, message, fields);
    return testing::internal::GetCapturedStderr();
  }

  // The part of a text line after time and level.
  static std::string text_of(std::string_view message, std::initializer_list<LogField> fields = {}) {
    const std::string line = logged(LogLevel::kInfo, message, fields);
    const auto at = line.find(" info  ");
    return at == std::string::npos ? "unexpected: " + line : line.substr(at + 7);
  }
};

TEST_F(LogTest, ATextLineHasTimeLevelMessageAndFields) {
  EXPECT_THAT(
      logged(LogLevel::kInfo, "listening", {{"port", "8080"}, {"model", "smol"}}),
      MatchesRegex("[0-9]+-[0-9]+-[0-9]+ [0-9]+:[0-9]+:[0-9]+\\.[0-9]+ info  listening port=8080 model=smol\n"));
}

TEST_F(LogTest, FieldsThatCouldMisleadAreQuoted) {
  EXPECT_EQ(text_of("m", {{"a", "two words"}, {"b", ""}, {"c", "x=y"}, {"d", "say \"hi\""}}),
            "m a=\"two words\" b=\"\" c=\"x=y\" d=\"say \\\"hi\\\"\"\n");
}

TEST_F(LogTest, AnEventStaysOneLineWithoutControlCodes) {
  EXPECT_EQ(text_of("a\nb", {{"f", "c\r\nd"}, {"g", "\x1b[31mred\x7f"}}), "a\\nb f=c\\x0d\\nd g=\\x1b[31mred\\x7f\n");
  // The second block of control codes, of which U+009B alone begins a terminal's command.
  EXPECT_EQ(text_of("a\xC2\x9B"
                    "2J",
                    {{"f", "\xC2\x80\xC2\xA0"}}),
            "a\\x9b2J f=\\x80\xC2\xA0\n");
}

TEST_F(LogTest, InvalidUtf8IsReplaced) {
  EXPECT_EQ(text_of("caf\xC3", {{"f", "\xFF"}}), "caf\xEF\xBF\xBD f=\xEF\xBF\xBD\n");
}

TEST_F(LogTest, MessagesAreNotFormats) { EXPECT_EQ(text_of("{} %v {0:>99}"), "{} %v {0:>99}\n"); }

TEST_F(LogTest, AJsonLineIsAnObject) {
  configure_log({.level = LogLevel::kInfo, .format = LogFormat::kJson});
  const std::string line = logged(LogLevel::kWarn, "odd \"request\"\n", {{"id", "r-1"}, {"raw", "\xFF{}"}});
  auto event = parse_json(line);
  ASSERT_TRUE(event.has_value()) << line;
  const json::object& object = event->as_object();
  EXPECT_EQ(object.at("level").as_string(), "warning");
  EXPECT_EQ(object.at("message").as_string(), "odd \"request\"\n");
  EXPECT_EQ(object.at("id").as_string(), "r-1");
  EXPECT_EQ(object.at("raw").as_string(), "\xEF\xBF\xBD{}");
  EXPECT_THAT(std::string(object.at("time").as_string()),
              MatchesRegex("[0-9]+-[0-9]+-[0-9]+T[0-9]+:[0-9]+:[0-9]+\\.[0-9]+[+-][0-9]+:[0-9]+"));
  EXPECT_EQ(object.size(), 5U);
}

TEST_F(LogTest, TheLevelDecidesWhatIsWritten) {
  configure_log({.level = LogLevel::kWarn, .format = LogFormat::kText});
  EXPECT_EQ(logged(LogLevel::kDebug, "quiet"), "");
  EXPECT_EQ(logged(LogLevel::kInfo, "quiet"), "");
  EXPECT_THAT(logged(LogLevel::kWarn, "loud"), HasSubstr(" loud\n"));
  EXPECT_THAT(logged(LogLevel::kError, "loud"), HasSubstr(" error loud\n"));
  configure_log({.level = LogLevel::kOff, .format = LogFormat::kText});
  EXPECT_EQ(logged(LogLevel::kError, "quiet"), "");
}

TEST_F(LogTest, ShorthandsUseTheirLevel) {
  configure_log({.level = LogLevel::kTrace, .format = LogFormat::kText});
  testing::internal::CaptureStderr();
  log_debug("one");
  log_info("two");
  log_warn("three");
  log_error("four", {{"k", "v"}});
  const std::string lines = testing::internal::GetCapturedStderr();
  EXPECT_THAT(lines, HasSubstr(" debug one\n"));
  EXPECT_THAT(lines, HasSubstr(" info  two\n"));
  EXPECT_THAT(lines, HasSubstr(" warning three\n"));
  EXPECT_THAT(lines, HasSubstr(" error four k=v\n"));
}

TEST_F(LogTest, ThreadsDoNotMixTheirLines) {
  testing::internal::CaptureStderr();
  {
    std::vector<std::jthread> threads;
    for (int i = 0; i < 4; ++i) {
      threads.emplace_back([] {
        for (int j = 0; j < 50; ++j) log_info("a whole line", {{"field", "value"}});
      });
    }
  }
  const std::string lines = testing::internal::GetCapturedStderr();
  int num_lines = 0;
  for (std::size_t start = 0; start < lines.size(); start = lines.find('\n', start) + 1) {
    const std::string line = lines.substr(start, lines.find('\n', start) - start);
    ASSERT_THAT(line, testing::EndsWith(" info  a whole line field=value"));
    ++num_lines;
  }
  EXPECT_EQ(num_lines, 200);
}

TEST(ParseLogLevel, KnowsTheNamesAndListsThem) {
  EXPECT_EQ(parse_log_level("trace").value(), LogLevel::kTrace);
  EXPECT_EQ(parse_log_level("debug").value(), LogLevel::kDebug);
  EXPECT_EQ(parse_log_level("info").value(), LogLevel::kInfo);
  EXPECT_EQ(parse_log_level("warn").value(), LogLevel::kWarn);
  EXPECT_EQ(parse_log_level("error").value(), LogLevel::kError);
  EXPECT_EQ(parse_log_level("off").value(), LogLevel::kOff);
  const Error error = parse_log_level("loud").error();
  EXPECT_EQ(error.message, "expected one of trace, debug, info, warn, error, off; got 'loud'");
  EXPECT_EQ(error.param, "log-level");
}

TEST(ParseLogFormat, KnowsTheNamesAndListsThem) {
  EXPECT_EQ(parse_log_format("text").value(), LogFormat::kText);
  EXPECT_EQ(parse_log_format("json").value(), LogFormat::kJson);
  const Error error = parse_log_format("xml").error();
  EXPECT_EQ(error.message, "expected text or json; got 'xml'");
  EXPECT_EQ(error.param, "log-format");
}

}  // namespace
}  // namespace redpoll
