// Buffers: host memory for the eager kernels, 64-byte aligned, seen by MLX as arrays without a copy. Activations come
// from a free list, so that a steady state calls no allocator. Memory is given back from any thread.
#pragma once

#include <mlx/array.h>

#include <cstddef>
#include <memory>
#include <mutex>

namespace redpoll::kernels::cpu {

namespace mx = mlx::core;

/// An available, row-contiguous float32 array and the place of its elements.
struct HostArray {
  mx::array array;
  float* data;
};

/// Uninitialized. The memory is recycled when the last array that shares it dies.
[[nodiscard]] HostArray make_array(mx::Shape shape);

/// Zero-filled, straight from the operating system: pages that are never written do not become resident. In huge pages
/// where the system has them: to fill a page takes longer than to fill what is in it.
[[nodiscard]] mx::array make_zeros(mx::Shape shape, mx::Dtype dtype);

/// True if MLX sees the memory of `make_array` at the address we gave it. Otherwise (a GPU build of MLX has another
/// kind of buffer) arrays come from MLX's own allocator, which aligns them less.
[[nodiscard]] bool arrays_share_our_memory();

/// Bytes that `make_array` keeps for reuse; for tests and statistics.
[[nodiscard]] std::size_t recycled_bytes();

/// Memory for weights, many matrices side by side in chunks of huge pages: with small pages, one row against the
/// starter model's weights, each matrix of which is smaller than a huge page, takes half as long again. A chunk is
/// freed with the last matrix in it, the newest not before this; what is larger than half of one has its own memory.
/// For any thread.
class WeightMemory {
 public:
  [[nodiscard]] std::shared_ptr<std::byte> allocate(std::size_t num_bytes);

 private:
  static constexpr std::size_t kChunkBytes = std::size_t{16} << 20U;

  std::mutex mutex_;
  std::shared_ptr<std::byte> chunk_;
  std::byte* next_ = nullptr;
  std::size_t left_ = 0;
};

}  // namespace redpoll::kernels::cpu
