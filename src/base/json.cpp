#include "base/json.h"

#include <boost/json/serialize.hpp>
#include <charconv>
#include <cmath>

#include "base/text.h"

namespace redpoll {
namespace {

constexpr double kLargestExactInteger = 9007199254740992.0;  // 2^53

void dump_double(double value, std::string& out) {
  if (!std::isfinite(value)) {
    out += "null";
    return;
  }
  char buffer[40];
  // Like Python, an exponent only where plain digits would be long.
  const double size = std::abs(value);
  const bool plain = size == 0 || (size >= 1e-4 && size < 1e16);
  const auto format = plain ? std::chars_format::fixed : std::chars_format::scientific;
  const auto end = std::to_chars(buffer, buffer + sizeof buffer, value, format).ptr;
  const std::string_view digits(buffer, static_cast<std::size_t>(end - buffer));
  out += digits;
  // Keep it a floating-point number for readers that distinguish 1 from 1.0.
  if (digits.find_first_of(".e") == std::string_view::npos) out += ".0";
}

void dump(const json::value& value, std::string& out) {
  switch (value.kind()) {
    case json::kind::object: {
      out += '{';
      bool first = true;
      for (const auto& [key, member] : value.get_object()) {
        if (!first) out += ',';
        first = false;
        out += json::serialize(key);
        out += ':';
        dump(member, out);
      }
      out += '}';
      break;
    }
    case json::kind::array: {
      out += '[';
      bool first = true;
      for (const auto& element : value.get_array()) {
        if (!first) out += ',';
        first = false;
        dump(element, out);
      }
      out += ']';
      break;
    }
    case json::kind::double_: dump_double(value.get_double(), out); break;
    default: out += json::serialize(value);
  }
}

std::string number_text(double value) {
  std::string out;
  dump_double(value, out);
  if (out.ends_with(".0")) out.resize(out.size() - 2);
  return out;
}

// A value as a message shows it: short, whatever the client sent.
std::string excerpt(const json::value& value) { return shortened(dump_json(value), 40); }

}  // namespace

std::string dump_json(const json::value& value) {
  std::string out;
  dump(value, out);
  return out;
}

std::string_view json_kind_name(const json::value& value) {
  switch (value.kind()) {
    case json::kind::null: return "null";
    case json::kind::bool_: return "boolean";
    case json::kind::int64:
    case json::kind::uint64:
    case json::kind::double_: return "number";
    case json::kind::string: return "string";
    case json::kind::array: return "array";
    case json::kind::object: return "object";
  }
  return "unknown";
}

std::string JsonReader::path_of(std::string_view name) const {
  return path_.empty() ? std::string(name) : path_ + '.' + std::string(name);
}

std::unexpected<Error> JsonReader::wrong_type(std::string_view name, std::string_view expected,
                                              const json::value& got) const {
  return fail(ErrorCode::kInvalidArgument,
              "'" + path_of(name) + "': expected " + std::string(expected) + ", got " +
                  std::string(json_kind_name(got)) + " " + excerpt(got),
              path_of(name));
}

const json::value* JsonReader::optional_value(std::string_view name) {
  read_.emplace(name);
  const json::value* value = object_.if_contains(json::string_view(name.data(), name.size()));
  return value == nullptr || value->is_null() ? nullptr : value;
}

Result<std::optional<bool>> JsonReader::optional_bool(std::string_view name) {
  const json::value* value = optional_value(name);
  if (value == nullptr) return std::nullopt;
  if (!value->is_bool()) return wrong_type(name, "a boolean", *value);
  return value->get_bool();
}

Result<std::optional<std::int64_t>> JsonReader::optional_int(std::string_view name, std::int64_t min,
                                                             std::int64_t max) {
  const json::value* value = optional_value(name);
  if (value == nullptr) return std::nullopt;
  const auto range_error = [&] {
    return fail(ErrorCode::kInvalidArgument,
                "'" + path_of(name) + "': expected a whole number from " + std::to_string(min) + " to " +
                    std::to_string(max) + ", got " + excerpt(*value),
                path_of(name));
  };
  std::int64_t number = 0;
  if (value->is_int64()) {
    number = value->get_int64();
  } else if (value->is_uint64()) {
    return range_error();  // over the largest int64
  } else if (value->is_double()) {
    const double real = value->get_double();
    if (real != std::floor(real) || std::abs(real) > kLargestExactInteger) return range_error();
    number = static_cast<std::int64_t>(real);
  } else {
    return wrong_type(name, "a whole number", *value);
  }
  if (number < min || number > max) return range_error();
  return number;
}

Result<std::optional<double>> JsonReader::optional_double(std::string_view name, double min, double max) {
  const json::value* value = optional_value(name);
  if (value == nullptr) return std::nullopt;
  if (!value->is_number()) return wrong_type(name, "a number", *value);
  const double number = value->to_number<double>();
  if (!(number >= min && number <= max)) {
    return fail(ErrorCode::kInvalidArgument,
                "'" + path_of(name) + "': expected a number from " + number_text(min) + " to " + number_text(max) +
                    ", got " + excerpt(*value),
                path_of(name));
  }
  return number;
}

Result<std::optional<std::string>> JsonReader::optional_string(std::string_view name) {
  const json::value* value = optional_value(name);
  if (value == nullptr) return std::nullopt;
  if (!value->is_string()) return wrong_type(name, "a string", *value);
  return std::string(value->get_string());
}

Result<const json::array*> JsonReader::optional_array(std::string_view name) {
  const json::value* value = optional_value(name);
  if (value == nullptr) return nullptr;
  if (!value->is_array()) return wrong_type(name, "an array", *value);
  return &value->get_array();
}

Result<const json::object*> JsonReader::optional_object(std::string_view name) {
  const json::value* value = optional_value(name);
  if (value == nullptr) return nullptr;
  if (!value->is_object()) return wrong_type(name, "an object", *value);
  return &value->get_object();
}

Result<std::string> JsonReader::required_string(std::string_view name) {
  ASSIGN_OR_RETURN(auto value, optional_string(name));
  if (!value) return fail(ErrorCode::kInvalidArgument, "'" + path_of(name) + "' is required", path_of(name));
  return *std::move(value);
}

Result<const json::array*> JsonReader::required_array(std::string_view name) {
  ASSIGN_OR_RETURN(const json::array* value, optional_array(name));
  if (value == nullptr) return fail(ErrorCode::kInvalidArgument, "'" + path_of(name) + "' is required", path_of(name));
  return value;
}

std::vector<std::string> JsonReader::unread_fields() const {
  std::vector<std::string> paths;
  for (const auto& member : object_) {
    const std::string key(member.key());
    if (!read_.contains(key)) paths.push_back(path_of(key));
  }
  paths.insert(paths.end(), unread_inside_.begin(), unread_inside_.end());
  return paths;
}

void JsonReader::note_unread(const JsonReader& nested) {
  for (std::string& path : nested.unread_fields()) unread_inside_.push_back(std::move(path));
}

}  // namespace redpoll
