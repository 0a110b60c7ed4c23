#include "base/json.h"

#include <gmock/gmock.h>

#include <bit>
#include <cmath>
#include <limits>
#include <random>

namespace redpoll {
namespace {

using testing::ElementsAre;
using testing::IsEmpty;

json::value parsed(std::string_view text) {
  auto value = parse_json(text);
  EXPECT_TRUE(value.has_value()) << text << ": " << value.error().message;
  return value.value_or(nullptr);
}

std::string parse_failure(std::string_view text, const JsonOptions& options = {}) {
  auto value = parse_json(text, options);
  if (value) return "no error";
  EXPECT_EQ(value.error().code, ErrorCode::kInvalidArgument);
  return value.error().message;
}

std::string printed(std::string_view text) { return dump_json(parsed(text)); }

std::string nested(int depth) {
  return std::string(static_cast<std::size_t>(depth), '[') + std::string(static_cast<std::size_t>(depth), ']');
}

TEST(ParseJson, KeepsTheOrderOfKeysAndTheLastOfDuplicates) {
  EXPECT_EQ(printed(R"({"z": 1, "a": {"c": [], "b": {}}, "m": null})"), R"({"z":1,"a":{"c":[],"b":{}},"m":null})");
  EXPECT_EQ(printed(R"({"a": 1, "a": 2})"), R"({"a":2})");
}

TEST(ParseJson, RefusesADepthBombAndAcceptsTheLimit) {
  EXPECT_EQ(printed(nested(64)), nested(64));
  EXPECT_EQ(parse_failure(nested(65)), "malformed JSON at byte 64: too deep");
  EXPECT_EQ(parse_failure(std::string(1'000'000, '[')), "malformed JSON at byte 64: too deep");
  EXPECT_EQ(parse_failure(R"({"a":{"a":{"a":1}}})", {.max_depth = 2}), "malformed JSON at byte 10: too deep");
}

TEST(ParseJson, DecodesSurrogatePairsAndRefusesLoneOnes) {
  EXPECT_EQ(parsed(R"("\ud83d\ude00")").get_string(), "😀");
  const auto lone = [](int position, const std::string& escape) {
    return "malformed JSON at byte " + std::to_string(position) + ": " + escape +
           " is half of a surrogate pair, no character";
  };
  EXPECT_EQ(parse_failure(R"("\ud800")"), lone(1, "\\ud800"));
  EXPECT_EQ(parse_failure(R"("\uD800b")"), lone(1, "\\uD800"));
  EXPECT_EQ(parse_failure(R"("\ud800\n")"), lone(1, "\\ud800"));
  EXPECT_EQ(parse_failure(R"("\ud800\u0041")"), lone(1, "\\ud800"));
  EXPECT_EQ(parse_failure(R"("\ud800\ud800")"), lone(1, "\\ud800"));
  EXPECT_EQ(parse_failure(R"("\udc00")"), lone(1, "\\udc00"));
  EXPECT_EQ(parse_failure(R"({"\ud83d\ude00\udc00": 1})"), lone(14, "\\udc00"));
}

TEST(ParseJson, WhatOnlyLooksLikeALoneSurrogateIsNotBlamed) {
  EXPECT_EQ(parsed(R"("\\ud800")").get_string(), "\\ud800");
  EXPECT_EQ(parse_failure("\"\\\\ud800\n\""), "malformed JSON at byte 8: syntax error");
  EXPECT_EQ(parse_failure("\"\\ud83d\\ude00\n\""), "malformed JSON at byte 13: syntax error");
}

TEST(ParseJson, NamesAByteOrderMark) {
  EXPECT_EQ(parse_failure("\xEF\xBB\xBF{}"), "malformed JSON at byte 0: a byte order mark; expected UTF-8 without one");
}

TEST(ParseJson, RefusesDuplicateKeysWhereAsked) {
  const JsonOptions strict{.duplicate_keys = DuplicateKeys::kRefuse};
  EXPECT_EQ(parse_failure(R"({"model": 1, "model": 2})", strict),
            "malformed JSON at byte 19: the key 'model' comes twice in one object");
  EXPECT_EQ(parse_failure(R"([{"a": {"b": 1, "c": {}, "b": 2}}])", strict),
            "malformed JSON at byte 27: the key 'b' comes twice in one object");
  EXPECT_EQ(parse_failure(R"({"a\n": 1, "a\u000a": 2})", strict),
            "malformed JSON at byte 19: the key 'a\n' comes twice in one object");
  EXPECT_EQ(parse_failure(R"({"a": {"a": [{"a": 1}, {"a": 2}]}, "b": {"a": 1}})", strict), "no error");
  const std::string long_key(1000, 'k');
  EXPECT_LT(parse_failure("{\"" + long_key + "\": 1, \"" + long_key + "\": 2}", strict).size(), 200U);
}

TEST(ParseJson, RefusesInvalidUtf8) {
  const std::string problem = "bytes that are not UTF-8";
  EXPECT_EQ(parse_failure("\"\xFF\""), "malformed JSON at byte 1: " + problem);
  EXPECT_EQ(parse_failure("\"ab\xED\xA0\x80\""), "malformed JSON at byte 3: " + problem);
  EXPECT_EQ(parse_failure("\"ab\xE2\x82\""), "malformed JSON at byte 3: " + problem);
}

TEST(ParseJson, RefusesWhatIsNotJsonAndSaysWhere) {
  EXPECT_EQ(parse_failure(""), "malformed JSON at byte 0: incomplete JSON");
  EXPECT_EQ(parse_failure("{\"a\": [1, 2"), "malformed JSON at byte 11: incomplete JSON");
  EXPECT_EQ(parse_failure("{} x"), "malformed JSON at byte 3: extra data");
  EXPECT_EQ(parse_failure("[1,]"), "malformed JSON at byte 3: syntax error");
  EXPECT_EQ(parse_failure("\"a\nb\""), "malformed JSON at byte 2: syntax error");
  for (const char* text : {"NaN", "Infinity", "-Infinity", "nul", "+1", ".5", "1.", "01", "'a'", "{a: 1}", "//\n1"}) {
    EXPECT_THAT(parse_failure(text), testing::StartsWith("malformed JSON at byte ")) << text;
  }
}

TEST(ParseJson, ReadsIntegersExactlyWhereTheyFit) {
  EXPECT_EQ(parsed("-9223372036854775808").as_int64(), std::numeric_limits<std::int64_t>::min());
  EXPECT_EQ(parsed("18446744073709551615").as_uint64(), std::numeric_limits<std::uint64_t>::max());
  EXPECT_EQ(parsed("18446744073709551616").as_double(), 18446744073709551616.0);
}

TEST(ParseJson, RefusesNumbersLargerThanADouble) {
  EXPECT_EQ(parse_failure("1e400"), "malformed JSON at byte 5: a number larger than a double can hold");
  EXPECT_EQ(parse_failure("[-1e309]"), "malformed JSON at byte 7: a number larger than a double can hold");
  EXPECT_EQ(parsed("1.7976931348623157e308").as_double(), std::numeric_limits<double>::max());
  EXPECT_EQ(parsed("1e-400").as_double(), 0.0);
}

TEST(DumpJson, DoublesReadBackEqual) {
  std::mt19937_64 random(20261129);
  for (int i = 0; i < 100'000; ++i) {
    const auto bits = std::bit_cast<double>(random());
    const double fraction = static_cast<double>(random() >> 11U) * 0x1p-53;
    for (const double value : {bits, fraction}) {
      if (!std::isfinite(value)) continue;
      ASSERT_EQ(parsed(dump_json(value)).as_double(), value) << dump_json(value);
    }
  }
}

TEST(DumpJson, DoublesPrintInPythonsForm) {
  EXPECT_EQ(dump_json(0.7), "0.7");
  EXPECT_EQ(dump_json(1.0), "1.0");
  EXPECT_EQ(dump_json(-0.0), "-0.0");
  EXPECT_EQ(dump_json(0.1 + 0.2), "0.30000000000000004");
  EXPECT_EQ(dump_json(0.0001), "0.0001");
  EXPECT_EQ(dump_json(1e-7), "1e-07");
  EXPECT_EQ(dump_json(100000.0), "100000.0");
  EXPECT_EQ(dump_json(1e16), "1e+16");
  EXPECT_EQ(dump_json(5e-324), "5e-324");
}

TEST(DumpJson, WhatJsonCannotSayPrintsAsNull) {
  EXPECT_EQ(dump_json(std::nan("")), "null");
  EXPECT_EQ(dump_json(-std::numeric_limits<double>::infinity()), "null");
}

TEST(DumpJson, EscapesWhatStringsMustEscape) {
  EXPECT_EQ(dump_json(json::value("a\"b\\c\n\t\x01 é😀/")), R"("a\"b\\c\n\t\u0001 é😀/")");
  EXPECT_EQ(dump_json(json::object{{"a\"b", true}}), R"({"a\"b":true})");
}

TEST(JsonKindName, NamesEveryKind) {
  EXPECT_EQ(json_kind_name(nullptr), "null");
  EXPECT_EQ(json_kind_name(true), "boolean");
  for (const char* number : {"1", "18446744073709551615", "1.5"}) EXPECT_EQ(json_kind_name(parsed(number)), "number");
  EXPECT_EQ(json_kind_name(json::value("a")), "string");
  EXPECT_EQ(json_kind_name(json::array()), "array");
  EXPECT_EQ(json_kind_name(json::object()), "object");
}

// Reading fields: what an accessor returns, or "param: message".
class JsonReaderTest : public testing::Test {
 protected:
  template <typename T>
  static std::string failure(const Result<T>& result) {
    if (result) return "no error";
    EXPECT_EQ(result.error().code, ErrorCode::kInvalidArgument);
    return result.error().param + ": " + result.error().message;
  }

  json::object object_ = parsed(R"({
    "yes": true, "int": 7, "whole": 3.0, "half": 3.5, "huge": 18446744073709551615, "far": 1e300, "text": "hi",
    "list": [1], "map": {"k": 1}, "nothing": null,
    "long": "aaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaa", "wide": ["ääääääääääääääääääääääääääää"]})")
                             .as_object();
  JsonReader reader_{object_, "messages[0]"};
};

TEST_F(JsonReaderTest, ReadsEveryType) {
  EXPECT_EQ(reader_.optional_bool("yes").value(), true);
  EXPECT_EQ(reader_.optional_int("int", 0, 10).value(), 7);
  EXPECT_EQ(reader_.optional_int("whole", 0, 10).value(), 3);
  EXPECT_EQ(reader_.optional_double("half", 0, 10).value(), 3.5);
  EXPECT_EQ(reader_.optional_double("int", 0, 10).value(), 7.0);
  EXPECT_EQ(reader_.optional_string("text").value(), "hi");
  EXPECT_EQ(reader_.optional_array("list").value()->size(), 1U);
  EXPECT_EQ(reader_.optional_object("map").value()->size(), 1U);
  EXPECT_EQ(reader_.required_string("text").value(), "hi");
  EXPECT_EQ(reader_.required_array("list").value()->size(), 1U);
  EXPECT_TRUE(reader_.optional_value("yes")->is_bool());
}

TEST_F(JsonReaderTest, NullReadsLikeAbsent) {
  for (const char* name : {"nothing", "missing"}) {
    EXPECT_EQ(reader_.optional_bool(name).value(), std::nullopt);
    EXPECT_EQ(reader_.optional_int(name, 0, 1).value(), std::nullopt);
    EXPECT_EQ(reader_.optional_double(name, 0, 1).value(), std::nullopt);
    EXPECT_EQ(reader_.optional_string(name).value(), std::nullopt);
    EXPECT_EQ(reader_.optional_array(name).value(), nullptr);
    EXPECT_EQ(reader_.optional_object(name).value(), nullptr);
    EXPECT_EQ(reader_.optional_value(name), nullptr);
    const std::string required = std::string("messages[0].") + name + ": 'messages[0]." + name + "' is required";
    EXPECT_EQ(failure(reader_.required_string(name)), required);
    EXPECT_EQ(failure(reader_.required_array(name)), required);
  }
}

TEST_F(JsonReaderTest, AWrongTypeSaysWhatWasExpectedAndWhatCame) {
  EXPECT_EQ(failure(reader_.optional_bool("int")),
            "messages[0].int: 'messages[0].int': expected a boolean, got number 7");
  EXPECT_EQ(failure(reader_.optional_int("text", 0, 1)),
            "messages[0].text: 'messages[0].text': expected a whole number, got string \"hi\"");
  EXPECT_EQ(failure(reader_.optional_double("yes", 0, 1)),
            "messages[0].yes: 'messages[0].yes': expected a number, got boolean true");
  EXPECT_EQ(failure(reader_.optional_string("list")),
            "messages[0].list: 'messages[0].list': expected a string, got array [1]");
  EXPECT_EQ(failure(reader_.optional_array("map")),
            "messages[0].map: 'messages[0].map': expected an array, got object {\"k\":1}");
  EXPECT_EQ(failure(reader_.optional_object("half")),
            "messages[0].half: 'messages[0].half': expected an object, got number 3.5");
  EXPECT_EQ(failure(reader_.required_string("map")),
            "messages[0].map: 'messages[0].map': expected a string, got object {\"k\":1}");
}

TEST_F(JsonReaderTest, OutOfRangeSaysTheRange) {
  EXPECT_EQ(failure(reader_.optional_int("int", 0, 5)),
            "messages[0].int: 'messages[0].int': expected a whole number from 0 to 5, got 7");
  EXPECT_EQ(failure(reader_.optional_int("half", 0, 5)),
            "messages[0].half: 'messages[0].half': expected a whole number from 0 to 5, got 3.5");
  EXPECT_EQ(failure(reader_.optional_int("far", 0, 5)),
            "messages[0].far: 'messages[0].far': expected a whole number from 0 to 5, got 1e+300");
  EXPECT_EQ(failure(reader_.optional_int("huge", 0, 5)),
            "messages[0].huge: 'messages[0].huge': expected a whole number from 0 to 5, got 18446744073709551615");
  EXPECT_EQ(failure(reader_.optional_double("int", 0, 2)),
            "messages[0].int: 'messages[0].int': expected a number from 0 to 2, got 7");
  EXPECT_EQ(failure(reader_.optional_double("half", -2.5, 1e6 - 999998)),
            "messages[0].half: 'messages[0].half': expected a number from -2.5 to 2, got 3.5");
}

TEST_F(JsonReaderTest, MessagesShowAnExcerptOfLongValuesCutBetweenCharacters) {
  EXPECT_EQ(failure(reader_.optional_bool("long")),
            "messages[0].long: 'messages[0].long': expected a boolean, got string \"" + std::string(36, 'a') + "...");
  const std::string wide = failure(reader_.optional_bool("wide"));
  EXPECT_EQ(wide, "messages[0].wide: 'messages[0].wide': expected a boolean, got array [\"äääääääääääääääää...");
}

TEST_F(JsonReaderTest, ReportsFieldsThatNobodyAskedFor) {
  for (const char* name : {"yes", "int", "whole", "half", "huge", "far", "text", "list", "long", "wide"}) {
    reader_.ignore(name);
  }
  EXPECT_THAT(reader_.unread_fields(), ElementsAre("messages[0].map", "messages[0].nothing"));
  (void)reader_.optional_object("map");
  (void)reader_.optional_string("nothing");
  EXPECT_THAT(reader_.unread_fields(), IsEmpty());
}

TEST_F(JsonReaderTest, ReportsFieldsOfNestedObjectsAfterItsOwn) {
  const json::object outer = {{"inner", {{"known", 1}, {"typo", 2}}}, {"extra", 3}};
  JsonReader reader(outer);
  JsonReader inner(*reader.optional_object("inner").value(), "inner");
  inner.ignore("known");
  reader.note_unread(inner);
  EXPECT_THAT(reader.unread_fields(), ElementsAre("extra", "inner.typo"));
}

TEST_F(JsonReaderTest, PathsStartAtTheRoot) {
  EXPECT_EQ(reader_.path_of("role"), "messages[0].role");
  EXPECT_EQ(JsonReader(object_).path_of("role"), "role");
  EXPECT_EQ(&reader_.object(), &object_);
}

}  // namespace
}  // namespace redpoll
