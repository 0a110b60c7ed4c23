// ToolSchemas: the tools that a request shows to the model, by name, with the types of their parameters. Where a model
// writes arguments as bare text, only the schema tells the text "5" from the number 5.
#pragma once

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
  /// `tools` as in requests: {"type": "function", "function": {"name": ..., "parameters": JSON schema}}.
  explicit ToolSchemas(json::array tools) : tools_(std::move(tools)) {}

  [[nodiscard]] bool contains(std::string_view tool) const { return find(tool) != nullptr; }
  /// Whether the name of any tool begins so.
  [[nodiscard]] bool contains_prefix(std::string_view prefix) const;

  /// The value that `argument` stands for, as JSON text. A parameter that can only be a string takes the text as it is.
  /// For others it is JSON, as it is written, or what Python prints for it; where a string is possible too, only if it
  /// is of another type that the schema allows. What is neither remains text, so that the client sees what the model
  /// wrote. Without a schema: JSON or Python's lists, dictionaries, True, False and None, else text.
  [[nodiscard]] std::string decode(std::string_view tool, std::string_view parameter, ArgumentText argument) const;

 private:
  [[nodiscard]] const json::object* find(std::string_view tool) const;

  json::array tools_;
};

}  // namespace redpoll::text
