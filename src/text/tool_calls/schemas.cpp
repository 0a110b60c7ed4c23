#include "text/tool_calls/schemas.h"

#include <algorithm>
#include <optional>

#include "text/tool_calls/json_text.h"
#include "text/tool_calls/python_literal.h"

namespace redpoll::text {
namespace {

// Sets of JSON types, one bit each. "integer" is "number" here: which of them a number is, its text says.
using Types = unsigned;
constexpr Types kNull = 1;
constexpr Types kBoolean = 2;
constexpr Types kNumber = 4;
constexpr Types kString = 8;
constexpr Types kArray = 16;
constexpr Types kObject = 32;
constexpr Types kAny = kNull | kBoolean | kNumber | kString | kArray | kObject;

Types type_of(const json::value& value) {
  if (value.is_null()) return kNull;
  if (value.is_bool()) return kBoolean;
  if (value.is_number()) return kNumber;
  if (value.is_string()) return kString;
  return value.is_array() ? kArray : kObject;
}

Types type_named(const json::value& name) {
  if (name == "null") return kNull;
  if (name == "boolean") return kBoolean;
  if (name == "number" || name == "integer") return kNumber;
  if (name == "string") return kString;
  if (name == "array") return kArray;
  if (name == "object") return kObject;
  return kAny;  // no type of JSON Schema, so it says nothing
}

// Which types a schema allows, as far as keywords about types say. Schemas come from clients and may refer to
// themselves in any number of ways, so after so many subschemas whatever is left counts as allowing all.
class TypeFinder {
 public:
  explicit TypeFinder(const json::value& root) : root_(root) {}

  Types allowed(const json::value& schema) {
    if (!schema.is_object() || num_left_ == 0) return kAny;
    --num_left_;
    Types types = kAny;
    for (const auto& [keyword, value] : schema.get_object()) types &= allowed_by(keyword, value);
    return types == 0 ? kAny : types;  // nothing at all can hardly be meant
  }

 private:
  Types allowed_by(std::string_view keyword, const json::value& value) {
    if (keyword == "type") return value.is_array() ? any_of(value, type_named) : type_named(value);
    if (keyword == "const") return type_of(value);
    if (keyword == "enum") return any_of(value, type_of);
    if (keyword == "anyOf" || keyword == "oneOf") {
      return any_of(value, [this](const json::value& schema) { return allowed(schema); });
    }
    if (keyword == "allOf" && value.is_array()) {
      Types types = kAny;
      for (const json::value& schema : value.get_array()) types &= allowed(schema);
      return types;
    }
    if (keyword == "$ref" && value.is_string()) return allowed_by_reference(value.get_string());
    return kAny;
  }

  template <typename TypesOf>
  static Types any_of(const json::value& values, TypesOf types_of) {
    if (!values.is_array()) return kAny;
    Types types = 0;
    for (const json::value& value : values.get_array()) types |= types_of(value);
    return types;
  }

  // "#/$defs/Name": a place in the schema of the parameters.
  Types allowed_by_reference(std::string_view reference) {
    if (!reference.starts_with("#/")) return kAny;
    boost::system::error_code error;
    const json::value* schema = root_.find_pointer(reference.substr(1), error);
    return schema == nullptr ? kAny : allowed(*schema);
  }

  const json::value& root_;
  int num_left_ = 1000;
};

std::string_view name_of(const json::value& tool) { return tool.at("function").at("name").as_string(); }

const json::value* schema_of(const json::value& parameters, std::string_view parameter) {
  const json::object* root = parameters.if_object();
  if (root == nullptr) return nullptr;
  const json::value* properties = root->if_contains("properties");
  if (properties != nullptr && properties->is_object()) {
    const json::value* schema = properties->get_object().if_contains(parameter);
    if (schema != nullptr) return schema;
  }
  return root->if_contains("additionalProperties");
}

// Spellings of one value each, the likeliest first. The value's JSON text.
template <typename Accept>
std::optional<std::string> read_value(ArgumentText argument, Accept accept) {
  for (const std::string_view text : {argument.written, argument.text}) {
    if (const Result<json::value> value = parse_json(text); value && accept(*value)) return compact_json(text);
  }
  for (const std::string_view text : {argument.written, argument.text}) {
    const std::optional<std::string> as_json = python_literal_as_json(text);
    const Result<json::value> value = as_json ? parse_json(*as_json) : fail(ErrorCode::kInvalidArgument, {});
    const bool quotes_itself = value && value->is_string();  // a text in single quotes is more likely just that
    if (value && !quotes_itself && accept(*value)) return compact_json(*as_json);
  }
  return std::nullopt;
}

}  // namespace

std::string ToolSchemas::decode(std::string_view tool, std::string_view parameter, ArgumentText argument) const {
  const json::object* function = find(tool);
  const json::value* parameters = function == nullptr ? nullptr : function->if_contains("parameters");
  const json::value* schema = parameters == nullptr ? nullptr : schema_of(*parameters, parameter);
  const Types types = schema == nullptr ? kAny : TypeFinder(*parameters).allowed(*schema);

  std::optional<std::string> value;
  if (types == kAny || (types & kString) == 0) {
    value = read_value(argument, [](const json::value&) { return true; });
  } else if (types != kString) {
    value = read_value(argument, [types](const json::value& read) { return (type_of(read) & types & ~kString) != 0; });
  }
  return value ? *std::move(value) : dump_json(json::value(json::string(argument.text)));
}

bool ToolSchemas::contains_prefix(std::string_view prefix) const {
  return std::ranges::any_of(tools_, [prefix](const json::value& tool) { return name_of(tool).starts_with(prefix); });
}

const json::object* ToolSchemas::find(std::string_view tool) const {
  const auto* found = std::ranges::find(tools_, tool, name_of);
  return found == tools_.end() ? nullptr : &found->at("function").as_object();
}

}  // namespace redpoll::text
