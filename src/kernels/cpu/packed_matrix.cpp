#include "kernels/cpu/packed_matrix.h"

#include <algorithm>
#include <optional>

#include "kernels/cpu/cpu_kernels.h"
#include "kernels/cpu/host_view.h"

namespace redpoll::kernels::cpu {
namespace {

/// Multiply-adds that are worth a fork: about 4 microseconds of one core.
constexpr std::int64_t kWorthAFork = 64 * 1024;
/// Parts per thread, so that a thread that is held up leaves work to the others.
constexpr std::int64_t kPartsPerThread = 4;

std::int64_t grain_for(std::int64_t num_items, std::int64_t work, const ThreadTeam& team) {
  if (work < kWorthAFork) return num_items;
  return std::max<std::int64_t>(1, num_items / (kPartsPerThread * team.num_threads()));
}

}  // namespace

PackedMatrix::PackedMatrix(std::shared_ptr<Context> context, const MatrixWeights& w)
    : Matrix(w.out_features, w.in_features),
      context_(std::move(context)),
      packed_{.lanes = context_->loops.lanes,
              .data = nullptr,
              .panel_bytes = w.bits == 0 ? dense_panel_bytes(w, context_->loops.lanes)
                                         : quantized_panel_bytes(w, context_->loops.lanes),
              .in_features = w.in_features,
              .bits = w.bits,
              .group_size = w.group_size,
              .type = w.type},
      int8_(context_->activations == Activations::kInt8 && (w.bits == 4 || w.bits == 8)),
      unit_rows_(kUnitPanels * packed_.lanes),
      num_units_((w.out_features + unit_rows_ - 1) / unit_rows_),
      num_bytes_(static_cast<std::size_t>(num_units_) * kUnitPanels * packed_.panel_bytes),
      bytes_(allocate_aligned(num_bytes_)) {
  packed_.data = bytes_.get();
  const auto pack = w.bits == 0 ? pack_dense_panel : pack_quantized_panel;
  const std::int64_t num_panels = std::int64_t{num_units_} * kUnitPanels;
  context_->team.parallel_for(num_panels, kUnitPanels, [&](std::int64_t begin, std::int64_t end) {
    for (std::int64_t p = begin; p < end; ++p) {
      pack(w, packed_.lanes, static_cast<int>(p), bytes_.get() + static_cast<std::size_t>(p) * packed_.panel_bytes);
    }
  });
}

HostArray PackedMatrix::quantize(const float* x, int rows) const {
  const std::size_t stride = int8_row_floats(packed_);
  HostArray quantized = make_array({rows, static_cast<int>(stride)});
  context_->team.parallel_for(rows, rows_per_part(in_features()), [&](std::int64_t begin, std::int64_t end) {
    for (std::int64_t row = begin; row < end; ++row) {
      context_->loops.quantize_row(packed_, x + row * in_features(),
                                   quantized.data + static_cast<std::size_t>(row) * stride);
    }
  });
  return quantized;
}

mx::array PackedMatrix::multiply(const mx::array& x) const {
  const HostView view(x);
  const int rows = static_cast<int>(view.size() / in_features());
  std::optional<HostArray> quantized;
  if (int8_) quantized = quantize(view.data(), rows);
  const float* input = int8_ ? quantized->data : view.data();
  const auto stride = int8_ ? static_cast<std::int64_t>(int8_row_floats(packed_)) : in_features();
  const auto loop = int8_ ? context_->loops.matmul_int8 : context_->loops.matmul;
  HostArray out = make_array({rows, out_features()});
  // An item is one unit of output rows for one block of x rows; blocks that follow each other find the unit's weights
  // still in the cache.
  const int num_blocks = (rows + kMaxRows - 1) / kMaxRows;
  const std::int64_t items = std::int64_t{num_units_} * num_blocks;
  const std::int64_t work = std::int64_t{rows} * in_features() * out_features();
  context_->team.parallel_for(items, grain_for(items, work, context_->team), [&](std::int64_t begin, std::int64_t end) {
    for (std::int64_t item = begin; item < end; ++item) {
      const int unit = static_cast<int>(item / num_blocks);
      const std::int64_t first_row = item % num_blocks * kMaxRows;
      const int column = unit * unit_rows_;
      loop(packed_, unit,
           {.x = input + first_row * stride,
            .out = out.data + first_row * out_features() + column,
            .num_rows = static_cast<int>(std::min<std::int64_t>(kMaxRows, rows - first_row)),
            .out_stride = out_features(),
            .num_columns = std::min(unit_rows_, out_features() - column)});
    }
  });
  return std::move(out.array);
}

}  // namespace redpoll::kernels::cpu
