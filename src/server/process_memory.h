// The memory that this process occupies: the only platform-specific question that the server asks.
#pragma once

#include <cstddef>
#include <optional>

namespace redpoll::server {

/// Resident set size now, or nullopt where the platform has no cheap way to ask. Microseconds.
[[nodiscard]] std::optional<std::size_t> resident_bytes();

}  // namespace redpoll::server
