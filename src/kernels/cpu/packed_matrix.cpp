#include "kernels/cpu/packed_matrix.h"

#include <algorithm>

#include "kernels/cpu/cpu_kernels.h"
#include "kernels/cpu/host_view.h"

namespace redpoll::kernels::cpu {
namespace {

/// Multiply-adds that are worth a fork: about 4 microseconds of one core.
constexpr std::int64_t kWorthAFork = std::int64_t{64} * 1024;
/// Parts per thread, so that a thread that is held up leaves work to the others.
constexpr std::int64_t kPartsPerThread = 8;

/// Rows of x as a matmul loop reads them.
struct Input {
  const float* rows = nullptr;
  std::int64_t stride = 0;
};

/// Rows as the loops of some matrices read them: all that have the same bits, groups and kind of activations.
struct PreparedRows {
  PreparedRows(Context& context, const PackedMatrix& matrix, const float* x, int rows)
      : like(&matrix),
        row_floats(matrix.loops().row_floats(matrix.packed())),
        array(make_array({rows, static_cast<int>(row_floats)})) {
    place(context, x, rows);
  }

  [[nodiscard]] bool serve(const PackedMatrix& matrix) const {
    const PackedWeights& mine = like->packed();
    const PackedWeights& other = matrix.packed();
    return mine.bits == other.bits && mine.group_size == other.group_size && &like->loops() == &matrix.loops();
  }

  const PackedMatrix* like;
  std::size_t row_floats;
  HostArray array;

 private:
  /// In tiles within blocks of kMaxRows rows.
  void place(Context& context, const float* x, int rows) const {
    const PackedWeights& packed = like->packed();
    const MatmulLoops& loops = like->loops();
    const int tiles_of_block = loops.num_tiles(packed, kMaxRows);
    const std::int64_t num_tiles =
        std::int64_t{rows / kMaxRows} * tiles_of_block + loops.num_tiles(packed, rows % kMaxRows);
    const std::int64_t grain = std::max<std::int64_t>(1, rows_per_part(packed.in_features) * tiles_of_block / kMaxRows);
    context.team.parallel_for(num_tiles, grain, [&](std::int64_t begin, std::int64_t end) {
      for (std::int64_t i = begin; i < end; ++i) {
        const std::int64_t first_of_block = i / tiles_of_block * kMaxRows;
        const int rows_of_block = static_cast<int>(std::min<std::int64_t>(kMaxRows, rows - first_of_block));
        const int tiles = loops.num_tiles(packed, rows_of_block);
        const int tile = static_cast<int>(i % tiles_of_block);
        const std::int64_t first = first_of_block + first_of_row_tile(rows_of_block, tiles, tile);
        const std::int64_t last = first_of_block + first_of_row_tile(rows_of_block, tiles, tile + 1);
        loops.place_rows(packed, x + first * packed.in_features, static_cast<int>(last - first),
                         array.data + static_cast<std::size_t>(first) * row_floats);
      }
    });
  }
};

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

  void run(std::int64_t item) const {
    const int unit = static_cast<int>(item / num_blocks_);
    const std::int64_t first_row = item % num_blocks_ * kMaxRows;
    const int column = unit * matrix_.unit_rows();
    matrix_.loops().matmul(matrix_.packed(), unit,
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
                                   std::vector<PreparedRows>& prepared) {
  std::vector<Product> products;
  products.reserve(matrices.size());
  for (const PackedMatrix* matrix : matrices) {
    const int rows = static_cast<int>(x.size() / matrix->in_features());
    auto same = std::ranges::find_if(prepared, [&](const PreparedRows& p) { return p.serve(*matrix); });
    if (same == prepared.end()) same = prepared.emplace(same, context, *matrix, x.data(), rows);
    products.emplace_back(*matrix, Input{same->array.data, static_cast<std::int64_t>(same->row_floats)}, rows);
  }
  return products;
}

const MatmulLoops& matmul_loops(const Loops& loops, Activations activations) {
  switch (activations) {
    case Activations::kInt16: return loops.int16;
    case Activations::kInt8: return loops.int8;
    case Activations::kFloat32: break;
  }
  return loops.float32;
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
      loops_(matmul_loops(context_->loops, activations_met(context_->activations, w.bits, w.group_size))),
      num_units_((w.out_features + unit_rows() - 1) / unit_rows()),
      num_bytes_(static_cast<std::size_t>(num_units_) * kUnitPanels * packed_.panel_bytes),
      bytes_(context_->weights.allocate(num_bytes_)) {
  CHECK(w.bits == 0 || w.group_size <= kMostGroup, "the loops take longer groups");
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
  std::vector<PreparedRows> prepared;
  const std::vector<Product> products = make_products(context, view, matrices, prepared);
  std::int64_t items = 0;
  std::int64_t work = 0;
  for (const Product& product : products) items += product.num_items();
  for (const PackedMatrix* matrix : matrices) work += view.size() * matrix->out_features();
  const std::int64_t parts = work < kWorthAFork ? 1 : kPartsPerThread * context.team.num_threads();
  context.team.parallel_for(items, std::max<std::int64_t>(1, items / parts), [&](std::int64_t begin, std::int64_t end) {
    for (const Product& product : products) {
      const std::int64_t count = product.num_items();
      for (std::int64_t item = std::max<std::int64_t>(begin, 0); item < std::min(end, count); ++item) {
        product.run(item);
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
