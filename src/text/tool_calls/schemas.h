// ToolSchemas: the tools that a request shows to the model, by name, with the types of their parameters. Where a model
// writes arguments as bare text, only the schema tells the text "5" from the number 5.
#pragma once

#include <functional>
#include <map>
#include <string>
#include <string_view>

#include "base/json.h"

namespace redpoll::text {

/// What a model wrote as the value of a parameter.
struct ArgumentText {
  std::string_view written;  // as it stands in the answer
  std::string_view text;     // after the markup's own escapes have been undone
};

/// Immutable: any number of threads may use one.
class ToolSchemas {
 public:
  /// `tools` as in requests: {"type": "function", "function": {"name": ..., "parameters": JSON schema}}. Of two of one
  /// name the first counts. Takes as long as the tools are, whatever in them refers to what.
  explicit ToolSchemas(const json::array& tools);

  [[nodiscard]] bool contains(std::string_view tool) const { return tools_.contains(tool); }
  /// Whether the name of any tool begins so; a search among the sorted names.
  [[nodiscard]] bool contains_prefix(std::string_view prefix) const;

  /// The value that `argument` stands for, as JSON text. A parameter that can only be a string takes the text as it is.
  /// For others it is JSON, as it is written, or what Python prints for it; where a string is possible too, only if it
  /// is of another type that the schema allows. What is neither remains text, so that the client sees what the model
  /// wrote. Without a schema: JSON or Python's lists, dictionaries, True, False and None, else text.
  [[nodiscard]] std::string decode(std::string_view tool, std::string_view parameter, ArgumentText argument) const;

 private:
  using Types = unsigned;  // a set of JSON's types, a bit each
  struct Parameters {
    std::map<std::string, Types, std::less<>> types;  // those of a name
    Types others = 0;
  };
  [[nodiscard]] static Parameters read_parameters(const json::object& function);
  [[nodiscard]] Types types_of(std::string_view tool, std::string_view parameter) const;

  std::map<std::string, Parameters, std::less<>> tools_;
};

}  // namespace redpoll::text
