// TokenId: the one number that text and engine exchange.
#pragma once

#include <cstdint>

namespace redpoll {

using TokenId = std::int32_t;

}  // namespace redpoll
