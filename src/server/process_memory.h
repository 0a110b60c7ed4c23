// The memory that this process occupies, where each platform has its own way.
#pragma once

#include <cstddef>
#include <optional>

namespace redpoll::server {

/// Resident set size now, or nullopt where the platform has no cheap way to ask. Microseconds.
[[nodiscard]] std::optional<std::size_t> resident_bytes();

/// Gives what was freed, and what the allocator keeps for later, back to the system: worth its milliseconds once much
/// has been freed that will not be needed again.
void release_free_memory();

}  // namespace redpoll::server
