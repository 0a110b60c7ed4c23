// Paged attention: cuts a batch into tiles of query tokens, and each tile's context into parts of fixed length that are
// combined in order. Parts make one long decode step parallel; because they are always the same and always combined
// the same way, a result does not depend on whether they ran on several threads.
#include <algorithm>
#include <cmath>
#include <optional>
#include <vector>

#include "kernels/cpu/buffer.h"
#include "kernels/cpu/cpu_kernels.h"
#include "kernels/cpu/host_view.h"

namespace redpoll::kernels::cpu {
namespace {

/// Context per part, rounded down to whole blocks.
constexpr int kPartTokens = 256;
/// Query rows (tokens x heads of a group) in a tile, and tokens at most: keys and values of a block are read and
/// unpacked once for all of them, and their queries, scores and states stay in the second-level cache.
constexpr int kTileRows = 48;
constexpr int kMaxTileTokens = 32;

struct Tile {
  const BatchRow* row = nullptr;
  int first_token = 0;  // within the row
  int num_tokens = 0;
  int kv_head = 0;
  int first_part = 0;  // that its first token sees
  int num_parts = 0;
  std::int64_t first_state_row = 0;  // of its parts' states, when they run apart
};

/// One part of what a tile sees, from its first on.
struct TilePart {
  const Tile* tile = nullptr;
  int part = 0;
};

class PagedAttention {
 public:
  PagedAttention(const HostView& q, const KvStorage& storage, const RaggedBatch& batch, const AttentionSpec& spec)
      : q_(q.data()),
        head_dim_(storage.head_dim),
        num_heads_(static_cast<int>(q.size() / (std::int64_t{batch.num_tokens()} * head_dim_))),
        kv_type_(storage.keys.dtype() == mx::float16 ? KvType::kF16 : KvType::kF32),
        keys_(storage.keys.data<std::byte>()),
        values_(storage.values.data<std::byte>()),
        packing_(storage.packing),
        num_groups_(packing_.bits == 0 ? 0 : head_dim_ / packing_.group_size),
        kv_heads_(storage.keys.shape(1)),
        key_head_bytes_(head_bytes(storage.keys)),
        value_head_bytes_(head_bytes(storage.values)),
        key_stride_(storage.keys.shape(3)),
        value_stride_(storage.values.shape(3) * (packing_.bits == 4 ? 2 : 1)),
        group_(num_heads_ / kv_heads_),
        cache_group_(storage.group),
        batch_(batch),
        part_blocks_(std::max(1, kPartTokens / batch.block_tokens)),
        score_stride_((part_blocks_ * batch.block_tokens + kPadding - 1) / kPadding * kPadding + kPadding),
        spec_(spec) {
    if (spec.sinks) sinks_.emplace(*spec.sinks);
    if (num_groups_ == 0) return;
    key_affines_ = storage.key_affines.data<std::byte>();
    value_affines_ = storage.value_affines.data<std::byte>();
  }

  void run(Context& context, float* out) {
    make_tiles();
    // Enough tiles keep all threads busy; otherwise parts run apart, if their states take no more than a step has room
    // for.
    const auto is_cut = [](const Tile& tile) { return tile.num_parts > 1; };
    const std::int64_t state_bytes =
        num_state_rows_ * attention_state_stride(value_stride_) * std::int64_t{sizeof(float)};
    const bool apart = static_cast<int>(tiles_.size()) < kTilesPerThread * context.team.num_threads() &&
                       context.team.num_threads() > 1 && state_bytes <= kMaxStateBytes &&
                       std::ranges::any_of(tiles_, is_cut);
    if (apart) {
      run_parts_apart(context, out);
    } else {
      run_tiles(context, out);
    }
  }

 private:
  static constexpr int kTilesPerThread = 4;
  static constexpr std::int64_t kMaxStateBytes = std::int64_t{16} << 20;

  [[nodiscard]] std::size_t state_floats() const {
    return tile_rows() * static_cast<std::size_t>(attention_state_stride(value_stride_));
  }
  [[nodiscard]] int tile_tokens() const { return std::clamp(kTileRows / group_, 1, kMaxTileTokens); }
  [[nodiscard]] std::size_t tile_rows() const {
    return static_cast<std::size_t>(tile_tokens()) * static_cast<std::size_t>(group_);
  }

  void make_tiles() {
    const int part_tokens = part_blocks_ * batch_.block_tokens;
    for (const BatchRow& row : batch_.rows) {
      for (int first = 0; first < row.num_tokens; first += tile_tokens()) {
        const int count = std::min(tile_tokens(), row.num_tokens - first);
        const int context = row.num_computed + first + count;
        const int first_seen = spec_.window == 0 ? 0 : std::max(0, row.num_computed + first + 1 - spec_.window);
        const int first_part = first_seen / part_tokens;
        const int parts = (context + part_tokens - 1) / part_tokens - first_part;
        for (int head = 0; head < kv_heads_; ++head) {
          tiles_.push_back({&row, first, count, head, first_part, parts, num_state_rows_});
          num_state_rows_ += std::int64_t{parts} * count * group_;
        }
      }
    }
  }

  void run_tiles(Context& context, float* out) {
    context.scratch.reserve(2 * state_floats() + scratch_floats());
    context.team.parallel_for(static_cast<std::int64_t>(tiles_.size()), 1, [&](std::int64_t begin, std::int64_t end) {
      float* states = context.scratch.mine();
      float* later = states + state_floats();
      for (std::int64_t i = begin; i < end; ++i) {
        const Tile& tile = tiles_[static_cast<std::size_t>(i)];
        const AttentionTile loop_tile = prepare(tile, later + state_floats());
        run_part(context.loops, loop_tile, tile.first_part, states);
        for (int part = 1; part < tile.num_parts; ++part) {
          run_part(context.loops, loop_tile, tile.first_part + part, later);
          context.loops.merge_attention(states, later, tile.num_tokens * group_, value_stride_);
        }
        finish(context.loops, tile, states, out);
      }
    });
  }

  void run_parts_apart(Context& context, float* out) {
    std::vector<TilePart> parts;
    for (const Tile& tile : tiles_) {
      for (int part = 0; part < tile.num_parts; ++part) parts.push_back({&tile, part});
    }
    HostArray all = make_array({static_cast<int>(num_state_rows_), attention_state_stride(value_stride_)});
    const auto states_of = [&](const TilePart& at) {
      const std::int64_t row = at.tile->first_state_row + std::int64_t{at.part} * at.tile->num_tokens * group_;
      return all.data + row * attention_state_stride(value_stride_);
    };
    context.scratch.reserve(scratch_floats());
    context.team.parallel_for(static_cast<std::int64_t>(parts.size()), 1, [&](std::int64_t begin, std::int64_t end) {
      float* memory = context.scratch.mine();
      for (std::int64_t i = begin; i < end; ++i) {
        const TilePart& at = parts[static_cast<std::size_t>(i)];
        run_part(context.loops, prepare(*at.tile, memory), at.tile->first_part + at.part, states_of(at));
      }
    });
    for (const Tile& tile : tiles_) {
      float* states = states_of({&tile, 0});
      for (int part = 1; part < tile.num_parts; ++part) {
        context.loops.merge_attention(states, states_of({&tile, part}), tile.num_tokens * group_, value_stride_);
      }
      finish(context.loops, tile, states, out);
    }
  }

  /// Bytes of one head of a block.
  static std::ptrdiff_t head_bytes(const mx::array& pool) {
    return static_cast<std::ptrdiff_t>(pool.itemsize()) * pool.shape(2) * pool.shape(3);
  }

  /// What `prepare` divides up.
  [[nodiscard]] std::size_t scratch_floats() const {
    const int of_groups = num_groups_ == 0 ? 0 : num_groups_ * (1 + kPadding) + key_stride_;
    return tile_rows() * static_cast<std::size_t>(head_dim_ + score_stride_ + of_groups) + block_floats() +
           2 * static_cast<std::size_t>(key_stride_);
  }
  /// What an unpacked block takes, of keys or values.
  [[nodiscard]] std::size_t block_floats() const {
    return static_cast<std::size_t>(std::max(head_dim_ * key_stride_, batch_.block_tokens * value_stride_));
  }

  /// Copies and scales the tile's queries to `memory`; scores, an unpacked block and what groups need follow them.
  [[nodiscard]] AttentionTile prepare(const Tile& tile, float* memory) const {
    float* query = memory;
    const int first_head = tile.kv_head * group_;
    for (int t = 0; t < tile.num_tokens; ++t) {
      const std::int64_t token = tile.row->first_token + tile.first_token + t;
      const float* from = q_ + (token * num_heads_ + first_head) * head_dim_;
      for (int i = 0; i < group_ * head_dim_; ++i) *query++ = from[i] * spec_.scale;
    }
    const int rows = tile.num_tokens * group_;
    float* unpacked = query + static_cast<std::ptrdiff_t>(rows) * score_stride_;
    float* query_sums = unpacked + block_floats();
    float* bias_sums = query_sums + static_cast<std::ptrdiff_t>(rows) * num_groups_;
    float* scaled_weights = bias_sums + static_cast<std::ptrdiff_t>(rows) * num_groups_ * kPadding;
    const std::ptrdiff_t affines = tile.kv_head * affine_head_bytes();
    return {.queries = memory,
            .num_tokens = tile.num_tokens,
            .first_position = tile.row->num_computed + tile.first_token,
            .group = group_,
            .head_dim = head_dim_,
            .window = spec_.window,
            .softcap = spec_.softcap,
            .kv_type = kv_type_,
            .packing = packing_,
            .keys = keys_ + tile.kv_head * key_head_bytes_,
            .values = values_ + tile.kv_head * value_head_bytes_,
            .key_block_bytes = kv_heads_ * key_head_bytes_,
            .value_block_bytes = kv_heads_ * value_head_bytes_,
            .block_table = batch_.block_table(*tile.row, cache_group_).data(),
            .block_tokens = batch_.block_tokens,
            .key_stride = key_stride_,
            .value_stride = value_stride_,
            .scores = query,
            .score_stride = score_stride_,
            .unpacked = unpacked,
            .num_groups = num_groups_,
            .key_affines = key_affines_ + affines,
            .value_affines = value_affines_ + affines,
            .affine_block_bytes = kv_heads_ * affine_head_bytes(),
            .query_sums = query_sums,
            .bias_sums = bias_sums,
            .scaled_weights = scaled_weights,
            .affines = scaled_weights + static_cast<std::ptrdiff_t>(rows) * key_stride_};
  }

  /// Scales and biases of one head of a block.
  [[nodiscard]] std::ptrdiff_t affine_head_bytes() const {
    return std::ptrdiff_t{2 * sizeof(Half)} * num_groups_ * key_stride_;
  }

  void run_part(const Loops& loops, const AttentionTile& tile, int part, float* states) const {
    const int context = tile.first_position + tile.num_tokens;
    const int num_blocks = (context + batch_.block_tokens - 1) / batch_.block_tokens;
    loops.attention(tile, part * part_blocks_, std::min((part + 1) * part_blocks_, num_blocks), states);
  }

  /// A sink is one more score, of a token without a value.
  void finish(const Loops& loops, const Tile& tile, float* states, float* out) const {
    const int first_head = tile.kv_head * group_;
    for (int t = 0; t < tile.num_tokens; ++t) {
      const std::int64_t token = tile.row->first_token + tile.first_token + t;
      for (int h = 0; h < group_; ++h, states += attention_state_stride(value_stride_)) {
        if (sinks_) states[value_stride_ + 1] += std::exp(sinks_->data()[first_head + h] - states[value_stride_]);
        loops.finish_attention(states, value_stride_, head_dim_,
                               out + (token * num_heads_ + first_head + h) * head_dim_);
      }
    }
  }

  const float* q_;
  int head_dim_;
  int num_heads_;
  KvType kv_type_;
  const std::byte* keys_;
  const std::byte* values_;
  KvPacking packing_;
  int num_groups_;  // of KvPacking
  const std::byte* key_affines_ = nullptr;
  const std::byte* value_affines_ = nullptr;
  int kv_heads_;
  std::ptrdiff_t key_head_bytes_;
  std::ptrdiff_t value_head_bytes_;
  int key_stride_;
  int value_stride_;
  int group_;        // query heads of a kv head
  int cache_group_;  // whose block tables are read
  const RaggedBatch& batch_;
  int part_blocks_;
  int score_stride_;  // see AttentionTile
  AttentionSpec spec_;
  std::optional<HostView> sinks_;
  std::vector<Tile> tiles_;
  std::int64_t num_state_rows_ = 0;
};

}  // namespace

mx::array CpuKernels::paged_attention(const mx::array& q, const KvStorage& storage, const RaggedBatch& batch,
                                      const AttentionSpec& spec) const {
  const HostView queries(q);
  HostArray out = make_array(q.shape());
  PagedAttention(queries, storage, batch, spec).run(*context_, out.data);
  return std::move(out.array);
}

}  // namespace redpoll::kernels::cpu
