#include "text/tool_calls/schemas.h"

#include <optional>
#include <unordered_map>
#include <utility>

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
// themselves and to each other in any number of ways, so each part of one is looked at once, however often something
// refers to it: all of it takes as long as the schema is. Within itself a part counts as allowing all, and so does what
// lies too deep.
class TypeFinder {
 public:
  explicit TypeFinder(const json::value& root) : root_(root) {}

  Types allowed(const json::value& schema) {
    if (!schema.is_object()) return kAny;
    if (const auto found = known_.find(&schema); found != known_.end()) return found->second;
    if (depth_ == kMaxDepth) return kAny;
    known_.emplace(&schema, kAny);
    ++depth_;
    Types types = kAny;
    for (const auto& [keyword, value] : schema.get_object()) types &= allowed_by(keyword, value);
    --depth_;
    if (types == 0) types = kAny;  // nothing at all can hardly be meant
    return known_[&schema] = types;
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

  static constexpr int kMaxDepth = 200;  // of references to references; JSON itself is not so deep

  const json::value& root_;
  int depth_ = 0;
  std::unordered_map<const json::value*, Types> known_;
};

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

ToolSchemas::ToolSchemas(const json::array& tools) {
  for (const json::value& tool : tools) {
    const json::object& function = tool.at("function").as_object();
    std::string name(function.at("name").as_string());
    if (!tools_.contains(name)) tools_.emplace(std::move(name), read_parameters(function));
  }
}

ToolSchemas::Parameters ToolSchemas::read_parameters(const json::object& function) {
  Parameters parameters{.types = {}, .others = kAny};
  const json::value* root = function.if_contains("parameters");
  if (root == nullptr || !root->is_object()) return parameters;
  TypeFinder finder(*root);
  const json::value* properties = root->get_object().if_contains("properties");
  if (properties != nullptr && properties->is_object()) {
    for (const auto& [name, schema] : properties->get_object()) parameters.types[name] = finder.allowed(schema);
  }
  const json::value* others = root->get_object().if_contains("additionalProperties");
  if (others != nullptr) parameters.others = finder.allowed(*others);
  return parameters;
}

ToolSchemas::Types ToolSchemas::types_of(std::string_view tool, std::string_view parameter) const {
  const auto found = tools_.find(tool);
  if (found == tools_.end()) return kAny;
  const Parameters& parameters = found->second;
  const auto own = parameters.types.find(parameter);
  return own == parameters.types.end() ? parameters.others : own->second;
}

std::string ToolSchemas::decode(std::string_view tool, std::string_view parameter, ArgumentText argument) const {
  const Types types = types_of(tool, parameter);
  std::optional<std::string> value;
  if (types == kAny || (types & kString) == 0) {
    value = read_value(argument, [](const json::value&) { return true; });
  } else if (types != kString) {
    value = read_value(argument, [types](const json::value& read) { return (type_of(read) & types & ~kString) != 0; });
  }
  return value ? *std::move(value) : dump_json(json::value(json::string(argument.text)));
}

bool ToolSchemas::contains_prefix(std::string_view prefix) const {
  const auto first = tools_.lower_bound(prefix);
  return first != tools_.end() && first->first.starts_with(prefix);
}

}  // namespace redpoll::text
