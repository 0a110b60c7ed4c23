// Blocks of the cache as bytes, on any device: what is to be read is gathered into an array of its own there, and only
// that is looked at from the host. Asking for a pool itself would move all of it, for good, where a device has memory
// of its own.
//
// MLX writes into a pool's memory if nobody else holds that when it does; otherwise it makes a new pool. Whatever reads
// a pool holds it until the device has come to that, and a thread of MLX's has noticed: a result may be there before.
// So reading is waited for until all is given back, and before anything is written.
#include <mlx/ops.h>
#include <mlx/stream.h>
#include <mlx/transforms.h>

#include <cstdint>
#include <cstring>
#include <utility>
#include <vector>

#include "base/error.h"
#include "kernels/reference.h"

namespace redpoll::kernels {
namespace {

mx::array array_of(std::span<const int> blocks) {
  return mx::array(blocks.data(), {static_cast<int>(blocks.size())}, mx::int32);
}

/// Waits for what is on its way, and until it holds no arrays any more.
void finish() { mx::synchronize(); }

/// `pool` with `contents` (blocks, ...) in these blocks.
mx::array with_blocks(const mx::array& pool, const mx::array& blocks, const mx::array& contents) {
  return mx::scatter(pool, blocks, mx::expand_dims(contents, 1), 0);
}

}  // namespace

void ReferenceKernels::copy_block(std::span<mx::array* const> pools, int from, int to) const {
  const mx::array source = array_of({&from, 1});
  const mx::array target = array_of({&to, 1});
  std::vector<mx::array> contents;
  contents.reserve(pools.size());
  for (const mx::array* pool : pools) contents.push_back(mx::take(*pool, source, 0));
  mx::async_eval(contents);
  finish();
  for (std::size_t i = 0; i < pools.size(); ++i) *pools[i] = with_blocks(*pools[i], target, contents[i]);
}

void ReferenceKernels::read_blocks(std::span<mx::array* const> pools, std::span<const int> blocks,
                                   std::span<std::byte> out) const {
  const mx::array places = array_of(blocks);
  std::vector<mx::array> parts;
  parts.reserve(pools.size());
  for (const mx::array* pool : pools) {
    const mx::array contents = mx::reshape(mx::take(*pool, places, 0), {places.shape(0), -1});
    parts.push_back(mx::view(contents, mx::uint8));
  }
  mx::array all = mx::contiguous(mx::concatenate(std::move(parts), 1));
  mx::async_eval(all);
  finish();
  CHECK(all.nbytes() == out.size(), "blocks are read as a whole");
  std::memcpy(out.data(), all.data<std::uint8_t>(), out.size());
}

void ReferenceKernels::write_blocks(std::span<mx::array* const> pools, std::span<const int> blocks,
                                    std::span<const std::byte> contents) const {
  finish();
  // All that takes memory of the device comes before the first pool changes: whoever goes on without what was to be
  // written finds the pools as they were.
  const mx::array places = array_of(blocks);
  const std::size_t block_bytes = contents.size() / blocks.size();
  std::vector<mx::array> parts;
  parts.reserve(pools.size());
  std::size_t first = 0;  // of a block's bytes, those of the pool
  for (const mx::array* pool : pools) {
    const std::size_t bytes = pool->nbytes() / static_cast<std::size_t>(pool->shape(0));
    std::vector<std::uint8_t> own(blocks.size() * bytes);
    for (std::size_t i = 0; i < blocks.size(); ++i) {
      std::memcpy(own.data() + i * bytes, contents.subspan(i * block_bytes + first, bytes).data(), bytes);
    }
    first += bytes;
    mx::Shape shape = pool->shape();
    shape[0] = places.shape(0);
    const mx::array flat(own.data(), {static_cast<int>(own.size())}, mx::uint8);
    parts.push_back(mx::reshape(mx::view(flat, pool->dtype()), shape));
  }
  CHECK(first == block_bytes, "blocks are written as a whole");
  mx::eval(parts);
  std::vector<mx::array> written;
  written.reserve(pools.size());
  for (std::size_t i = 0; i < pools.size(); ++i) written.push_back(with_blocks(*pools[i], places, parts[i]));
  for (std::size_t i = 0; i < pools.size(); ++i) *pools[i] = written[i];
  mx::async_eval(std::move(written));
  finish();
}

}  // namespace redpoll::kernels
