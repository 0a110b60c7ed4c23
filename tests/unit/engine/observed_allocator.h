// The allocator of test_engine and test_cache: counts what each thread asks for, and fails on demand.
#pragma once

#include <cstddef>
#include <cstdint>

namespace redpoll::test {

struct Allocations {
  std::size_t count = 0;
  std::size_t largest = 0;  // bytes
  int until_failure = 0;    // one more than those that succeed before one fails, once; 0: none does
};

/// Of the calling thread.
[[nodiscard]] Allocations& allocations();
/// Of all threads: what has been allocated and not freed.
[[nodiscard]] std::int64_t live_bytes();

}  // namespace redpoll::test
