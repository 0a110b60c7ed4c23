#include "nn/row_slice.h"

#include <algorithm>
#include <cstdint>
#include <span>
#include <utility>
#include <vector>

#include "checkpoint/tensor.h"

namespace redpoll::nn {

kernels::MatrixWeights rows_of(const kernels::MatrixWeights& all, int first, int count) {
  const auto cut = [&](std::span<const std::byte> bytes) {
    const std::size_t row_bytes = bytes.size() / static_cast<std::size_t>(all.out_features);
    return bytes.subspan(static_cast<std::size_t>(first) * row_bytes, static_cast<std::size_t>(count) * row_bytes);
  };
  kernels::MatrixWeights rows = all;
  rows.out_features = count;
  rows.weight = cut(all.weight);
  rows.scales = cut(all.scales);
  rows.biases = cut(all.biases);
  return rows;
}

mx::array row_indices(RowSlice slice, int count) {
  const int run = slice.run == 0 ? count : slice.run;
  std::vector<std::int32_t> rows;
  for (int i = 0; i < count; ++i) rows.push_back(slice.first + i / run * slice.stride + i % run);
  return mx::array(rows.data(), {count}, mx::int32);
}

kernels::MatrixWeights slice_of(const kernels::MatrixWeights& all, RowSlice slice, int count) {
  if (slice.run == 0) return rows_of(all, slice.first, count);
  kernels::MatrixWeights rows = all;
  rows.out_features = count;
  for (auto part :
       {&kernels::MatrixWeights::weight, &kernels::MatrixWeights::scales, &kernels::MatrixWeights::biases}) {
    const std::size_t row_bytes = (all.*part).size() / static_cast<std::size_t>(all.out_features);
    const checkpoint::OwnedBytes copy = checkpoint::allocate_bytes(row_bytes * static_cast<std::size_t>(count));
    auto to = copy.bytes.begin();
    for (int i = 0; i < count / slice.run; ++i) {
      const auto from = (all.*part).subspan(static_cast<std::size_t>(slice.first + i * slice.stride) * row_bytes,
                                            static_cast<std::size_t>(slice.run) * row_bytes);
      to = std::copy(from.begin(), from.end(), to);  // std::ranges::copy: byte by byte in gcc 12
    }
    rows.*part = copy.bytes;
    rows.storage = both(rows.storage, copy.storage);
  }
  return rows;
}

std::shared_ptr<const void> both(const std::shared_ptr<const void>& a, const std::shared_ptr<const void>& b) {
  return std::make_shared<std::pair<std::shared_ptr<const void>, std::shared_ptr<const void>>>(a, b);
}

}  // namespace redpoll::nn
