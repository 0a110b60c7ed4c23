#include "text/tool_calls/call_reader.h"

namespace redpoll::text {

CallReader::Step Pattern::push(char byte) {
  if (rest_.starts_with(' ')) {
    if (is_space(byte)) return CallReader::Step::kMore;
    rest_.remove_prefix(1);
  }
  const bool is_quote = byte == '"' || byte == '\'';
  const bool fits = rest_.starts_with('"') ? is_quote : rest_.starts_with(byte);
  if (!fits) return CallReader::Step::kFailed;
  rest_.remove_prefix(1);
  return rest_.empty() ? CallReader::Step::kComplete : CallReader::Step::kMore;
}

}  // namespace redpoll::text
