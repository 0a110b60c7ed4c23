#include "kernels/cpu/packed_matrix.h"

#include <algorithm>
#include <functional>
#include <utility>

#include "kernels/cpu/cpu_kernels.h"
#include "kernels/cpu/host_view.h"

namespace redpoll::kernels::cpu {
namespace {

/// Multiply-adds that are worth a fork: about 4 microseconds of one core.
constexpr std::int64_t kWorthAFork = std::int64_t{64} * 1024;
/// Parts per thread, so that a thread that is held up leaves work to the others.
constexpr std::int64_t kPartsPerThread = 8;

/// Rows as the loops of some matrices read them: all that have the same bits, groups and kind of activations.
class PreparedRows {
 public:
  explicit PreparedRows(const MatmulJob& job)
      : like_(job.matrix),
        x_(job.x),
        num_rows_(job.num_rows),
        row_floats_(job.matrix->loops().row_floats(job.matrix->packed())),
        array_(make_array({job.num_rows, static_cast<int>(row_floats_)})),
        tiles_of_block_(like_->loops().num_tiles(like_->packed(), kMaxRows)) {}

  [[nodiscard]] bool serve(const MatmulJob& job) const {
    const PackedWeights& mine = like_->packed();
    const PackedWeights& other = job.matrix->packed();
    return x_ == job.x && num_rows_ == job.num_rows && mine.bits == other.bits && mine.group_size == other.group_size &&
           &like_->loops() == &job.matrix->loops();
  }

  /// In tiles within blocks of kMaxRows rows.
  [[nodiscard]] std::int64_t num_tiles() const {
    return std::int64_t{num_rows_ / kMaxRows} * tiles_of_block_ +
           like_->loops().num_tiles(like_->packed(), num_rows_ % kMaxRows);
  }
  [[nodiscard]] std::int64_t tiles_of_part() const {
    return std::max<std::int64_t>(1, rows_per_part(like_->in_features()) * tiles_of_block_ / kMaxRows);
  }

  void place(std::int64_t index) const {
    const PackedWeights& packed = like_->packed();
    const MatmulLoops& loops = like_->loops();
    const std::int64_t first_of_block = index / tiles_of_block_ * kMaxRows;
    const int rows_of_block = static_cast<int>(std::min<std::int64_t>(kMaxRows, num_rows_ - first_of_block));
    const int tiles = loops.num_tiles(packed, rows_of_block);
    const int tile = static_cast<int>(index % tiles_of_block_);
    const std::int64_t first = first_of_block + first_of_row_tile(rows_of_block, tiles, tile);
    const std::int64_t last = first_of_block + first_of_row_tile(rows_of_block, tiles, tile + 1);
    loops.place_rows(packed, x_ + first * packed.in_features, static_cast<int>(last - first), row(first));
  }

  [[nodiscard]] float* row(std::int64_t index) const {
    return array_.data + static_cast<std::size_t>(index) * row_floats_;
  }

 private:
  const PackedMatrix* like_;
  const float* x_;
  int num_rows_;
  std::size_t row_floats_;
  HostArray array_;
  int tiles_of_block_;
};

/// One job's share of the work. An item is one unit of output rows for one block of x rows; blocks that follow each
/// other find the unit's weights still in the cache.
class Product {
 public:
  Product(const MatmulJob& job, const PreparedRows& rows)
      : job_(job), rows_(rows), num_blocks_((job.num_rows + kMaxRows - 1) / kMaxRows) {}

  [[nodiscard]] std::int64_t num_items() const { return std::int64_t{job_.matrix->num_units()} * num_blocks_; }

  void run(std::int64_t item) const {
    const PackedMatrix& matrix = *job_.matrix;
    const int unit = static_cast<int>(item / num_blocks_);
    const std::int64_t first_row = item % num_blocks_ * kMaxRows;
    const int column = unit * matrix.unit_rows();
    matrix.loops().matmul(matrix.packed(), unit,
                          {.x = rows_.row(first_row),
                           .out = job_.out + first_row * matrix.out_features() + column,
                           .num_rows = static_cast<int>(std::min<std::int64_t>(kMaxRows, job_.num_rows - first_row)),
                           .out_stride = matrix.out_features(),
                           .num_columns = std::min(matrix.unit_rows(), matrix.out_features() - column)});
  }

 private:
  const MatmulJob& job_;
  const PreparedRows& rows_;
  int num_blocks_;
};

/// body(parts[i], k) for the k-th item of each part, count(part) of them, in one fork.
template <typename Part, typename Count, typename Body>
void for_each_item(ThreadTeam& team, const std::vector<Part>& parts, std::int64_t grain, Count count, Body body) {
  std::int64_t all = 0;
  for (const Part& part : parts) all += count(part);
  team.parallel_for(all, grain, [&](std::int64_t begin, std::int64_t end) {
    for (const Part& part : parts) {
      const std::int64_t num_items = count(part);
      for (std::int64_t item = std::max<std::int64_t>(begin, 0); item < std::min(end, num_items); ++item) {
        body(part, item);
      }
      begin -= num_items;
      end -= num_items;
      if (end <= 0) return;
    }
  });
}

const MatmulLoops& matmul_loops(const Loops& loops, Activations activations) {
  switch (activations) {
    case Activations::kInt16: return loops.int16;
    case Activations::kInt8: return loops.int8;
    case Activations::kFloat32: break;
  }
  return loops.float32;
}

std::size_t panel_bytes(const MatrixWeights& w, int lanes) {
  return w.bits == 0 ? dense_panel_bytes(w, lanes) : quantized_panel_bytes(w, lanes);
}

int units_of(const MatrixWeights& w, int lanes) {
  const int unit_rows = kUnitPanels * lanes;
  return (w.out_features + unit_rows - 1) / unit_rows;
}

}  // namespace

std::size_t packed_bytes(const MatrixWeights& weights, int lanes) {
  return static_cast<std::size_t>(units_of(weights, lanes)) * kUnitPanels * panel_bytes(weights, lanes);
}

PackedMatrix::PackedMatrix(std::shared_ptr<Context> context, const MatrixWeights& w)
    : Matrix(w.out_features, w.in_features),
      context_(std::move(context)),
      packed_{.lanes = context_->loops.lanes,
              .data = nullptr,
              .panel_bytes = panel_bytes(w, context_->loops.lanes),
              .in_features = w.in_features,
              .bits = w.bits,
              .group_size = w.group_size,
              .type = w.type},
      loops_(matmul_loops(context_->loops, activations_met(context_->activations, w.bits, w.group_size))),
      num_units_(units_of(w, packed_.lanes)),
      num_bytes_(packed_bytes(w, packed_.lanes)),
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

void multiply_jobs(Context& context, std::span<const MatmulJob> jobs) {
  std::vector<PreparedRows> prepared;
  std::vector<std::size_t> prepared_for;  // by job
  prepared_for.reserve(jobs.size());
  for (const MatmulJob& job : jobs) {
    auto same = std::ranges::find_if(prepared, [&](const PreparedRows& rows) { return rows.serve(job); });
    if (same == prepared.end()) same = prepared.insert(same, PreparedRows(job));
    prepared_for.push_back(static_cast<std::size_t>(same - prepared.begin()));
  }
  if (prepared.empty()) return;
  for_each_item(context.team, prepared, prepared.front().tiles_of_part(), std::mem_fn(&PreparedRows::num_tiles),
                [](const PreparedRows& rows, std::int64_t tile) { rows.place(tile); });

  std::vector<Product> products;
  products.reserve(jobs.size());
  std::int64_t items = 0;
  std::int64_t work = 0;
  for (std::size_t i = 0; i < jobs.size(); ++i) {
    const PackedMatrix& matrix = *jobs[i].matrix;
    products.emplace_back(jobs[i], prepared[prepared_for[i]]);
    items += products.back().num_items();
    work += std::int64_t{jobs[i].num_rows} * matrix.in_features() * matrix.out_features();
  }
  const std::int64_t parts = work < kWorthAFork ? 1 : kPartsPerThread * context.team.num_threads();
  for_each_item(context.team, products, std::max<std::int64_t>(1, items / parts), std::mem_fn(&Product::num_items),
                [](const Product& product, std::int64_t item) { product.run(item); });
}

std::vector<mx::array> multiply_packed(Context& context, const mx::array& x,
                                       std::span<const PackedMatrix* const> matrices) {
  const HostView view(x);
  std::vector<MatmulJob> jobs;
  std::vector<mx::array> results;
  jobs.reserve(matrices.size());
  results.reserve(matrices.size());
  for (const PackedMatrix* matrix : matrices) {
    const int rows = static_cast<int>(view.size() / matrix->in_features());
    HostArray out = make_array({rows, matrix->out_features()});
    jobs.push_back({.matrix = matrix, .x = view.data(), .num_rows = rows, .out = out.data});
    results.push_back(std::move(out.array));
  }
  multiply_jobs(context, jobs);
  return results;
}

}  // namespace redpoll::kernels::cpu
