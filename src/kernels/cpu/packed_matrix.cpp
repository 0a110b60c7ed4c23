#include "kernels/cpu/packed_matrix.h"

#include <algorithm>

#include "kernels/cpu/cpu_kernels.h"
#include "kernels/cpu/host_view.h"

namespace redpoll::kernels::cpu {
namespace {

/// Multiply-adds that are worth a fork: about 4 microseconds of one core.
constexpr std::int64_t kWorthAFork = 64 * 1024;
/// Parts per thread, so that a thread that is held up leaves work to the others.
constexpr std::int64_t kPartsPerThread = 4;

/// Rows of x as a matmul loop reads them.
struct Input {
  const float* rows = nullptr;
  std::int64_t stride = 0;
};

/// Rows rounded to int8 for matrices whose bytes and groups have the same order.
struct RoundedRows {
  int bits;
  int group_size;
  HostArray rows;
};

RoundedRows round_rows(Context& context, const PackedWeights& packed, const float* x, int rows) {
  const std::size_t stride = int8_row_floats(packed);
  RoundedRows rounded{packed.bits, packed.group_size, make_array({rows, static_cast<int>(stride)})};
  context.team.parallel_for(rows, rows_per_part(packed.in_features), [&](std::int64_t begin, std::int64_t end) {
    for (std::int64_t row = begin; row < end; ++row) {
      context.loops.quantize_row(packed, x + row * packed.in_features,
                                 rounded.rows.data + static_cast<std::size_t>(row) * stride);
    }
  });
  return rounded;
}

/// One matrix's share of the work. An item is one unit of output rows for one block of x rows; blocks that follow each
/// other find the unit's weights still in the cache.
class Product {
 public:
  Product(const PackedMatrix& matrix, Input input, int rows)
      : matrix_(matrix),
        input_(input),
        rows_(rows),
        num_blocks_((rows + kMaxRows - 1) / kMaxRows),
        out_(make_array({rows, matrix.out_features()})) {}

  [[nodiscard]] std::int64_t num_items() const { return std::int64_t{matrix_.num_units()} * num_blocks_; }

  void run(const Loops& loops, std::int64_t item) const {
    const int unit = static_cast<int>(item / num_blocks_);
    const std::int64_t first_row = item % num_blocks_ * kMaxRows;
    const int column = unit * matrix_.unit_rows();
    const auto loop = matrix_.takes_int8() ? loops.matmul_int8 : loops.matmul;
    loop(matrix_.packed(), unit,
         {.x = input_.rows + first_row * input_.stride,
          .out = out_.data + first_row * matrix_.out_features() + column,
          .num_rows = static_cast<int>(std::min<std::int64_t>(kMaxRows, rows_ - first_row)),
          .out_stride = matrix_.out_features(),
          .num_columns = std::min(matrix_.unit_rows(), matrix_.out_features() - column)});
  }

  [[nodiscard]] mx::array result() const { return out_.array; }

 private:
  const PackedMatrix& matrix_;
  Input input_;
  int rows_;
  int num_blocks_;
  HostArray out_;
};

std::vector<Product> make_products(Context& context, const HostView& x, std::span<const PackedMatrix* const> matrices,
                                   std::vector<RoundedRows>& rounded) {
  std::vector<Product> products;
  products.reserve(matrices.size());
  for (const PackedMatrix* matrix : matrices) {
    const PackedWeights& packed = matrix->packed();
    const int rows = static_cast<int>(x.size() / packed.in_features);
    if (!matrix->takes_int8()) {
      products.emplace_back(*matrix, Input{x.data(), packed.in_features}, rows);
      continue;
    }
    auto same = std::ranges::find_if(
        rounded, [&](const RoundedRows& r) { return r.bits == packed.bits && r.group_size == packed.group_size; });
    if (same == rounded.end()) same = rounded.insert(same, round_rows(context, packed, x.data(), rows));
    products.emplace_back(*matrix, Input{same->rows.data, static_cast<std::int64_t>(int8_row_floats(packed))}, rows);
  }
  return products;
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
      takes_int8_(rounds_to_int8(context_->activations, w.bits, w.group_size)),
      num_units_((w.out_features + unit_rows() - 1) / unit_rows()),
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

mx::array PackedMatrix::multiply(const mx::array& x) const {
  const PackedMatrix* self = this;
  return std::move(multiply_packed(*context_, x, {&self, 1}).front());
}

std::vector<mx::array> multiply_packed(Context& context, const mx::array& x,
                                       std::span<const PackedMatrix* const> matrices) {
  const HostView view(x);
  std::vector<RoundedRows> rounded;
  const std::vector<Product> products = make_products(context, view, matrices, rounded);
  std::int64_t items = 0;
  std::int64_t work = 0;
  for (const Product& product : products) items += product.num_items();
  for (const PackedMatrix* matrix : matrices) work += view.size() * matrix->out_features();
  const std::int64_t parts = work < kWorthAFork ? 1 : kPartsPerThread * context.team.num_threads();
  context.team.parallel_for(items, std::max<std::int64_t>(1, items / parts), [&](std::int64_t begin, std::int64_t end) {
    for (const Product& product : products) {
      const std::int64_t count = product.num_items();
      for (std::int64_t item = std::max<std::int64_t>(begin, 0); item < std::min(end, count); ++item) {
        product.run(context.loops, item);
      }
      begin -= count;
      end -= count;
    }
  });
  std::vector<mx::array> results;
  results.reserve(products.size());
  for (const Product& product : products) results.push_back(product.result());
  return results;
}

}  // namespace redpoll::kernels::cpu
