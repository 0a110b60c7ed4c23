// Blocks of the cache as bytes: plain copies of host memory.
#include <cstring>

#include "kernels/cpu/cpu_kernels.h"

namespace redpoll::kernels::cpu {
namespace {

std::span<std::byte> block_of(mx::array& pool, int block) {
  const std::size_t bytes = pool.nbytes() / static_cast<std::size_t>(pool.shape(0));
  return {pool.data<std::byte>() + static_cast<std::size_t>(block) * bytes, bytes};
}

}  // namespace

void CpuKernels::copy_block(std::span<mx::array* const> pools, int from, int to) const {
  for (mx::array* pool : pools) {
    const std::span<std::byte> contents = block_of(*pool, from);
    std::memcpy(block_of(*pool, to).data(), contents.data(), contents.size());
  }
}

void CpuKernels::read_blocks(std::span<mx::array* const> pools, std::span<const int> blocks,
                             std::span<std::byte> out) const {
  for (const int block : blocks) {
    for (mx::array* pool : pools) {
      const std::span<std::byte> contents = block_of(*pool, block);
      std::memcpy(out.data(), contents.data(), contents.size());
      out = out.subspan(contents.size());
    }
  }
  CHECK(out.empty(), "blocks are read as a whole");
}

void CpuKernels::write_blocks(std::span<mx::array* const> pools, std::span<const int> blocks,
                              std::span<const std::byte> contents) const {
  for (const int block : blocks) {
    for (mx::array* pool : pools) {
      const std::span<std::byte> place = block_of(*pool, block);
      std::memcpy(place.data(), contents.data(), place.size());
      contents = contents.subspan(place.size());
    }
  }
  CHECK(contents.empty(), "blocks are written as a whole");
}

}  // namespace redpoll::kernels::cpu
