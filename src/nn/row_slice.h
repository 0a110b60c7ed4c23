// RowSlice: which rows of a stored matrix are a layer's own, where a checkpoint keeps several layers in one.
#pragma once

#include <mlx/array.h>

#include <memory>

#include "kernels/matrix.h"

namespace redpoll::nn {

namespace mx = mlx::core;

/// Some rows of a matrix that the checkpoint keeps several in: [first, + out_features) of `of`, or runs of `run` rows
/// that begin `stride` rows after each other.
struct RowSlice {
  int first = 0;
  int of = 0;   // 0: the matrix is not shared
  int run = 0;  // 0: all in one
  int stride = 0;
};

/// Rows [first, + count) of a matrix, whose bytes they view.
[[nodiscard]] kernels::MatrixWeights rows_of(const kernels::MatrixWeights& all, int first, int count);
/// The `count` rows of a slice, which are copied if they do not follow each other.
[[nodiscard]] kernels::MatrixWeights slice_of(const kernels::MatrixWeights& all, RowSlice slice, int count);
/// Where they are: (count) int32.
[[nodiscard]] mx::array row_indices(RowSlice slice, int count);

/// Keeps both alive.
[[nodiscard]] std::shared_ptr<const void> both(const std::shared_ptr<const void>& a,
                                               const std::shared_ptr<const void>& b);

}  // namespace redpoll::nn
