// How an array comes to share our memory: a CPU buffer of MLX is a pointer to a size_t, the byte count, that the
// elements follow. So a block is a 64-byte header, whose last word is that count, and then the elements:
//
//   | BlockHeader ...... size |  elements, 64-byte aligned
//                        ^ what MLX's Buffer holds
#include "kernels/cpu/buffer.h"

#include <mlx/device.h>
#include <mlx/ops.h>

#include <algorithm>
#include <array>
#include <bit>
#include <cstdint>
#include <cstdlib>
#include <mutex>
#include <new>
#include <utility>

#include "base/aligned_memory.h"

#if __has_include(<sys/mman.h>)
#include <sys/mman.h>
#include <unistd.h>
#define REDPOLL_HAS_MMAP 1
#endif

namespace redpoll::kernels::cpu {
namespace {

struct alignas(kAlignment) BlockHeader {
  BlockHeader* next = nullptr;  // in the free list
  std::size_t block_bytes = 0;  // header and elements
  void* mapping = nullptr;      // of `block_bytes`, if it is one of its own
  std::array<std::uint64_t, 4> unused{};
  std::size_t size = 0;  // read by MLX
};
static_assert(sizeof(BlockHeader) == kAlignment);

void* elements_of(BlockHeader* block) { return block + 1; }
BlockHeader* block_of(mx::allocator::Buffer buffer) {
  return reinterpret_cast<BlockHeader*>(static_cast<std::byte*>(buffer.ptr()) + sizeof(std::size_t)) - 1;
}
mx::allocator::Buffer buffer_of(BlockHeader* block) { return mx::allocator::Buffer(&block->size); }

/// Size classes: four per doubling, from 256 bytes, so that rounding up wastes a fifth of a block at most.
struct SizeClass {
  std::size_t index;
  std::size_t bytes;
};
SizeClass size_class(std::size_t bytes) {
  if (bytes <= 256) return {0, 256};
  const std::size_t power = std::size_t{1} << (std::bit_width(bytes - 1) - 1);  // power < bytes <= 2 * power
  const std::size_t quarters = (bytes - power + power / 4 - 1) / (power / 4);   // 1 to 4
  return {4 * (std::bit_width(power) - std::bit_width(std::size_t{256})) + quarters, power + quarters * (power / 4)};
}

/// Free blocks by size class. One of the next two classes serves too, so that what steps of different lengths take is
/// not kept for each of them: a block is at most twice as large as its array. Lives until the program ends, because
/// arrays may.
class BlockPool {
 public:
  BlockHeader* take(std::size_t num_bytes) {
    const SizeClass wanted = size_class(sizeof(BlockHeader) + num_bytes);
    if (BlockHeader* block = pop(wanted)) return block;
    void* memory = std::aligned_alloc(kAlignment, wanted.bytes);
    if (memory == nullptr) throw std::bad_alloc();
    auto* block = new (memory) BlockHeader;
    block->block_bytes = wanted.bytes;
    return block;
  }

  void give_back(BlockHeader* block) {
    {
      const std::scoped_lock lock(mutex_);
      if (bytes_ + block->block_bytes <= kMaxBytes) {
        bytes_ += block->block_bytes;
        BlockHeader*& head = free_[size_class(block->block_bytes).index];
        block->next = std::exchange(head, block);
        return;
      }
    }
    std::free(block);
  }

  std::size_t bytes() const {
    const std::scoped_lock lock(mutex_);
    return bytes_;
  }

 private:
  static constexpr std::size_t kMaxBytes = std::size_t{256} << 20U;  // beyond it, blocks return to the system

  BlockHeader* pop(const SizeClass& wanted) {
    constexpr std::size_t kLargerClasses = 2;
    const std::scoped_lock lock(mutex_);
    for (std::size_t i = wanted.index; i <= wanted.index + kLargerClasses; ++i) {
      BlockHeader*& head = free_[i];
      if (head == nullptr) continue;
      bytes_ -= head->block_bytes;
      return std::exchange(head, head->next);
    }
    return nullptr;
  }

  mutable std::mutex mutex_;
  std::array<BlockHeader*, 256> free_{};
  std::size_t bytes_ = 0;
};

BlockPool& block_pool() {
  static BlockPool& pool = *new BlockPool;
  return pool;
}

std::size_t num_elements(const mx::Shape& shape) {
  std::size_t n = 1;
  for (const auto dim : shape) n *= static_cast<std::size_t>(dim);
  return n;
}

HostArray from_mlx(mx::Shape shape) {
  const std::size_t bytes = num_elements(shape) * sizeof(float);
  mx::array array(mx::allocator::malloc(bytes), std::move(shape), mx::float32);
  auto* data = array.data<float>();
  return {std::move(array), data};
}

mx::array wrap(BlockHeader* block, mx::Shape shape, mx::Dtype dtype, void (*free_block)(mx::allocator::Buffer)) {
  return mx::array(mx::allocator::Data(buffer_of(block), free_block), std::move(shape), dtype);
}

HostArray from_pool(mx::Shape shape) {
  const std::size_t bytes = num_elements(shape) * sizeof(float);
  BlockHeader* block = block_pool().take(bytes);
  block->size = bytes;
  mx::array array = wrap(block, std::move(shape), mx::float32,
                         [](mx::allocator::Buffer buffer) { block_pool().give_back(block_of(buffer)); });
  return {std::move(array), static_cast<float*>(elements_of(block))};
}

#if defined(REDPOLL_HAS_MMAP)
/// A block whose elements begin at the border of a huge page. Its header has a small page of its own before that, so
/// that no huge page is resident as long as nothing is written.
BlockHeader* map_block(std::size_t num_bytes) {
  const auto page = static_cast<std::size_t>(sysconf(_SC_PAGESIZE));
  const std::size_t mapped_bytes = page + kHugePage + round_up(num_bytes, page);
  void* memory = mmap(nullptr, mapped_bytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
  if (memory == MAP_FAILED) throw std::bad_alloc();
  const auto begin = reinterpret_cast<std::uintptr_t>(memory);
  const std::uintptr_t elements = round_up(begin + page, kHugePage);
  auto* block = new (reinterpret_cast<void*>(elements - sizeof(BlockHeader))) BlockHeader;
  block->mapping = memory;
  block->block_bytes = mapped_bytes;
  block->size = num_bytes;
#if defined(MADV_HUGEPAGE)
  if (num_bytes >= kHugePage) madvise(elements_of(block), num_bytes, MADV_HUGEPAGE);  // advice
#endif
  return block;
}
#endif

}  // namespace

bool arrays_share_our_memory() {
  static const bool shared = [] {
#if defined(__APPLE__)
    return false;
#else
    if (mx::is_available(mx::Device(mx::Device::gpu))) return false;
    HostArray probe = from_pool({1});
    return probe.array.data<float>() == probe.data;
#endif
  }();
  return shared;
}

HostArray make_array(mx::Shape shape) {
  return arrays_share_our_memory() ? from_pool(std::move(shape)) : from_mlx(std::move(shape));
}

mx::array make_zeros(mx::Shape shape, mx::Dtype dtype) {
#if defined(REDPOLL_HAS_MMAP)
  if (arrays_share_our_memory()) {
    BlockHeader* block = map_block(num_elements(shape) * dtype.size());
    return wrap(block, std::move(shape), dtype, [](mx::allocator::Buffer buffer) {
      const BlockHeader* mapped = block_of(buffer);
      munmap(mapped->mapping, mapped->block_bytes);
    });
  }
#endif
  mx::array zeros = mx::zeros(shape, dtype);
  zeros.eval();
  return zeros;
}

std::size_t recycled_bytes() { return block_pool().bytes(); }

std::shared_ptr<std::byte> WeightMemory::allocate(std::size_t num_bytes) {
  const auto allocate_shared = [](std::size_t size) {
    return std::shared_ptr<std::byte>(allocate_aligned(size).release(), FreeAligned{size});
  };
  if (num_bytes > kChunkBytes / 2) return allocate_shared(num_bytes);
  num_bytes = round_up(num_bytes, kAlignment);
  const std::scoped_lock lock(mutex_);
  if (num_bytes > left_) {
    chunk_ = allocate_shared(kChunkBytes);
    next_ = chunk_.get();
    left_ = kChunkBytes;
  }
  left_ -= num_bytes;
  return {chunk_, std::exchange(next_, next_ + num_bytes)};
}

}  // namespace redpoll::kernels::cpu
