#include "base/aligned_memory.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cstdint>
#include <vector>

namespace redpoll {
namespace {

TEST(AlignedMemoryTest, EverySizeCanBeWrittenToItsEnd) {
  for (const std::size_t size : {std::size_t{0}, std::size_t{1}, std::size_t{64}, std::size_t{100'001}, kHugePage - 1,
                                 kHugePage, kHugePage + 1, 3 * kHugePage - 1}) {
    std::vector<AlignedBytes> pieces;  // one beside the other
    for (int i = 0; i < 3; ++i) {
      pieces.push_back(allocate_aligned(size));
      const std::size_t alignment = size >= kHugePage ? kHugePage : 64;
      EXPECT_EQ(reinterpret_cast<std::uintptr_t>(pieces.back().get()) % alignment, 0U) << size;
      std::fill_n(pieces.back().get(), size, static_cast<std::byte>(i));
    }
    pieces.erase(pieces.begin());  // the others stay as they are
    for (int i = 1; i < 3; ++i) {
      const std::byte* bytes = pieces[static_cast<std::size_t>(i - 1)].get();
      EXPECT_EQ(std::count(bytes, bytes + size, static_cast<std::byte>(i)), static_cast<std::ptrdiff_t>(size));
    }
  }
}

}  // namespace
}  // namespace redpoll
