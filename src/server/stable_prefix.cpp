#include "server/stable_prefix.h"

#include <algorithm>
#include <string>

namespace redpoll::server {
namespace {

bool is_system(const json::value& message) {
  const json::value* role = message.as_object().if_contains("role");
  return role != nullptr && role->is_string() && role->get_string() == "system";
}

/// The whole characters that two texts begin with.
std::string_view common_beginning(std::string_view a, std::string_view b) {
  auto length = static_cast<std::size_t>(std::ranges::mismatch(a, b).in1 - a.begin());
  const auto is_continuation = [](char byte) { return (static_cast<unsigned char>(byte) & 0xC0U) == 0x80U; };
  while (length > 0 && length < a.size() && is_continuation(a[length])) --length;
  return a.substr(0, length);
}

}  // namespace

int num_stable_tokens(const ServedModel& model, const api::Conversation& conversation, std::string_view prompt,
                      std::span<const TokenId> ids) {
  const json::array& messages = conversation.messages;
  const auto first_other = std::ranges::find_if_not(messages, is_system);
  if (first_other == messages.end() || (first_other == messages.begin() && conversation.tools.empty())) return 0;
  // Two messages that begin differently: one of them differs from what is really there, whatever that is.
  std::string_view common = prompt;
  for (const char* content : {"a", "b"}) {
    json::array other(messages.begin(), first_other);
    other.push_back(json::object{{"role", "user"}, {"content", content}});
    const auto rendered = model.chat_template->render({.messages = other,
                                                       .tools = conversation.tools,
                                                       .add_generation_prompt = true,
                                                       .kwargs = conversation.chat_template_kwargs});
    if (!rendered) return 0;
    common = common_beginning(common, *rendered);
  }
  const auto beginning = model.tokenizer->encode(common, {.add_special_tokens = false});
  if (!beginning) return 0;
  return static_cast<int>(std::ranges::mismatch(ids, *beginning).in1 - ids.begin());
}

}  // namespace redpoll::server
