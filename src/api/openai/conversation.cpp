#include "api/openai/conversation.h"

#include <algorithm>
#include <array>

#include "api/openai/request_fields.h"

namespace redpoll::api::openai {
namespace {

// What the server itself passes to the template.
constexpr std::array<std::string_view, 5> kReservedNames = {"messages", "tools", "chat_template", "tokenize",
                                                            "add_generation_prompt"};

Result<json::object> read_template_kwargs(JsonReader& reader) {
  json::object kwargs;
  ASSIGN_OR_RETURN(const json::object* given, reader.optional_object("chat_template_kwargs"));
  if (given != nullptr) kwargs = *given;
  for (const auto& member : kwargs) {
    if (std::ranges::find(kReservedNames, std::string_view(member.key())) != kReservedNames.end()) {
      return bad_field(reader.path_of("chat_template_kwargs") + '.' + std::string(member.key()),
                       "the server sets this itself");
    }
  }
  ASSIGN_OR_RETURN(const std::optional<std::string> effort, reader.optional_string("reasoning_effort"));
  if (effort) {
    // Templates know one of the two; what the client spelled out as template arguments wins.
    kwargs.emplace("reasoning_effort", *effort);
    kwargs.emplace("enable_thinking", *effort != "none");
  }
  return kwargs;
}

}  // namespace

Result<Conversation> read_conversation(JsonReader& reader) {
  Conversation conversation;
  RETURN_IF_ERROR(read_messages(reader, conversation));
  RETURN_IF_ERROR(read_tools(reader, conversation));
  ASSIGN_OR_RETURN(conversation.chat_template_kwargs, read_template_kwargs(reader));
  return conversation;
}

}  // namespace redpoll::api::openai
