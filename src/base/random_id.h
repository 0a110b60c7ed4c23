// Random identifiers: of answers and tool calls, and the nonces of the web page's policy.
#pragma once

#include <string>

namespace redpoll {

/// 128 unpredictable bits as 32 hex digits.
[[nodiscard]] std::string random_hex();

}  // namespace redpoll
