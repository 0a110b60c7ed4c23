#include "support/scripted_model.h"

#include <mlx/ops.h>
#include <mlx/transforms.h>

#include <algorithm>
#include <cmath>
#include <limits>
#include <map>
#include <memory>
#include <set>
#include <stdexcept>
#include <string>
#include <utility>

#include "cache/sequence_cache.h"
#include "engine/sampling/random.h"
#include "kernels/cpu/buffer.h"

namespace redpoll::test {
namespace {

namespace mx = mlx::core;

constexpr int kHeadDim = 8;
constexpr float kNextLogit = 8;

models::ModelInfo scripted_info(int vocab_size, int context_length, const std::vector<int>& windows, bool has_state) {
  std::vector<cache::LayerCache> layers;
  for (const int window : windows) {
    layers.push_back({.kind = cache::CacheKind::kAttention, .num_kv_heads = 1, .head_dim = kHeadDim, .window = window});
  }
  if (has_state) layers.push_back({.kind = cache::CacheKind::kRecurrent, .conv_tokens = 1, .conv_channels = 2});
  return {.model_type = "scripted",
          .vocab_size = vocab_size,
          .layers = std::move(layers),
          .context_length = context_length,
          .weight_bytes = 0};
}

std::uint64_t hash_of(std::span<const TokenId> prefix) {
  std::uint64_t hash = prefix.size();
  for (const TokenId token : prefix) hash = engine::sampling::mix_bits(hash ^ static_cast<std::uint64_t>(token));
  return hash;
}

void expect(bool condition, const std::string& what) {
  if (!condition) throw std::logic_error("bad batch: " + what);
}

std::size_t index(int value) { return static_cast<std::size_t>(value); }

/// Where a row's token at this position is kept.
std::size_t slot_of(const kernels::RaggedBatch& batch, const kernels::BatchRow& row, int group, int position) {
  const std::int32_t block = batch.block_table(row, group)[index(position / batch.block_tokens)];
  expect(block >= 0, "a token that was left behind");
  return index(block) * index(batch.block_tokens) + index(position % batch.block_tokens);
}

void check_row(const kernels::RaggedBatch& batch, const kernels::BatchRow& row) {
  expect(row.num_tokens > 0, "a row without tokens");
  expect(row.num_blocks * batch.block_tokens >= row.num_computed + row.num_tokens, "a row without room");
  for (int i = 0; i < row.num_tokens; ++i) {
    expect(batch.positions[index(row.first_token) + index(i)] == row.num_computed + i, "positions");
  }
}

/// Rows may share blocks, but not those that one of them writes.
void check_blocks(const kernels::RaggedBatch& batch, int group, int num_blocks) {
  std::map<std::int32_t, int> num_rows;
  std::set<std::int32_t> written;
  for (const kernels::BatchRow& row : batch.rows) {
    const auto table = batch.block_table(row, group);
    const auto first = std::ranges::find_if(table, [](std::int32_t block) { return block != cache::kNoBlock; });
    std::set<std::int32_t> own(first, table.end());
    expect(own.size() == index(static_cast<int>(table.end() - first)), "a block twice in a table");
    for (const std::int32_t block : own) {
      expect(block >= 0 && block < num_blocks, "no such block");
      ++num_rows[block];
    }
    for (int position = row.num_computed; position < row.num_computed + row.num_tokens; ++position) {
      written.insert(table[index(position / batch.block_tokens)]);
    }
  }
  for (const std::int32_t block : written) expect(num_rows[block] == 1, "a block that is shared and written");
}

void check_batch(const kernels::RaggedBatch& batch, std::span<const kernels::KvStorage> layers) {
  int next_token = 0;
  for (const kernels::BatchRow& row : batch.rows) {
    expect(row.first_token == next_token, "rows do not follow each other");
    next_token += row.num_tokens;
    check_row(batch, row);
  }
  for (const kernels::KvStorage& layer : layers) check_blocks(batch, layer.group, layer.keys.shape(0));
  expect(next_token == batch.num_tokens() && batch.positions.size() == batch.tokens.size(), "tokens beyond the rows");
  expect(!batch.logit_rows.empty() && std::ranges::is_sorted(batch.logit_rows), "logit rows");
  expect(batch.logit_rows.front() >= 0 && batch.logit_rows.back() < batch.num_tokens(), "logit rows out of range");
}

/// What is kept of a token in the place of its K, in the layout of stock kernels. Zeros were never written.
struct Slot {
  float token_plus_one = 0;
  float position_plus_one = 0;
  float number = 0;  // NaN: what was computed of the token is none
  float unused[kHeadDim - 3] = {};
};
static_assert(sizeof(Slot) == kHeadDim * sizeof(float));

std::span<Slot> write_slots(nn::ForwardContext& context, kernels::KvStorage& storage) {
  const kernels::RaggedBatch& batch = context.batch;
  std::vector<Slot> slots;
  for (std::size_t i = 0; i < batch.tokens.size(); ++i) {
    slots.push_back({.token_plus_one = static_cast<float>(batch.tokens[i] + 1),
                     .position_plus_one = static_cast<float>(batch.positions[i] + 1)});
  }
  const mx::array k(reinterpret_cast<const float*>(slots.data()), {batch.num_tokens(), 1, kHeadDim}, mx::float32);
  context.kernels.write_kv(storage, k, mx::zeros_like(k), batch);
  mx::eval(storage.keys);
  const auto num_slots = storage.keys.size() / kHeadDim;
  return {reinterpret_cast<Slot*>(storage.keys.data<float>()), num_slots};
}

/// What a layer has kept.
struct Kept {
  std::span<Slot> slots;
  int group = 0;
  int window = 0;
};

/// The tokens that the last of the first `num_tokens` of a row sees.
std::vector<TokenId> read_seen(const Kept& kept, const kernels::RaggedBatch& batch, const kernels::BatchRow& row,
                               int num_tokens) {
  std::vector<TokenId> seen;
  const int first = kept.window == 0 ? 0 : std::max(num_tokens - kept.window, 0);
  for (int position = first; position < num_tokens; ++position) {
    const Slot& stored = kept.slots[slot_of(batch, row, kept.group, position)];
    expect(stored.position_plus_one == static_cast<float>(position + 1), "a token that was never computed");
    seen.push_back(static_cast<TokenId>(stored.token_plus_one) - 1);
  }
  return seen;
}

/// From the first layer, which has all tokens; the others must agree in what they see.
std::vector<TokenId> read_prefix(const std::vector<Kept>& layers, const kernels::RaggedBatch& batch,
                                 const kernels::BatchRow& row, int num_tokens) {
  std::vector<TokenId> prefix = read_seen(layers.front(), batch, row, num_tokens);
  for (const Kept& layer : layers) {
    const std::vector<TokenId> seen = read_seen(layer, batch, row, num_tokens);
    expect(std::ranges::equal(seen, std::span(prefix).last(seen.size())), "layers that have seen different tokens");
  }
  return prefix;
}

/// Whether a token that the last of the first `num_tokens` of a row sees, or itself, is without numbers.
bool sees_none(const Kept& kept, const kernels::RaggedBatch& batch, const kernels::BatchRow& row, int num_tokens) {
  for (int position = 0; position < num_tokens; ++position) {
    if (std::isnan(kept.slots[slot_of(batch, row, kept.group, position)].number)) return true;
  }
  return false;
}

/// As a model does: who sees a token without numbers has none either.
void spoil(nn::ForwardContext& context, const Kept& all, const std::function<bool(std::span<const TokenId>)>& spoils) {
  const kernels::RaggedBatch& batch = context.batch;
  std::vector<std::uint8_t> finite;
  for (const kernels::BatchRow& row : batch.rows) {
    for (int length = row.num_computed + 1; length <= row.num_computed + row.num_tokens; ++length) {
      const auto prefix = read_seen(all, batch, row, length);
      const bool is_spoilt = sees_none(all, batch, row, length) || spoils(prefix);
      if (is_spoilt) {
        all.slots[slot_of(batch, row, all.group, length - 1)].number = std::numeric_limits<float>::quiet_NaN();
      }
      finite.push_back(is_spoilt ? 0 : 1);
    }
  }
  if (batch.has_unseen_tokens) {
    context.finite_tokens = mx::astype(mx::array(finite.data(), {batch.num_tokens()}, mx::uint8), mx::bool_);
  }
}

/// A recurrent layer's state: how many tokens it has seen, and their hash, as far as a float holds it.
struct State {
  float num_tokens = 0;
  float hash = 0;
};

float short_hash(std::span<const TokenId> prefix) { return static_cast<float>(hash_of(prefix) % (1U << 24U)); }

/// Each row's state must be of the tokens before this step's, and becomes one of these too.
void update_states(nn::ForwardContext& context, const std::vector<Kept>& layers) {
  mx::array& all = context.states.back().convolution;
  all.eval();
  auto* states = reinterpret_cast<State*>(all.data<float>());
  std::set<std::int32_t> used;
  for (const kernels::BatchRow& row : context.batch.rows) {
    expect(row.state >= 0 && row.state < all.shape(0), "no such state");
    expect(used.insert(row.state).second, "a state of two rows");
    State& state = states[row.state];
    const std::vector<TokenId> prefix = read_prefix(layers, context.batch, row, row.num_computed + row.num_tokens);
    const std::span before = std::span(prefix).first(index(row.num_computed));
    if (row.num_computed > 0) {
      expect(state.num_tokens == static_cast<float>(row.num_computed), "a state of other tokens");
      expect(state.hash == short_hash(before), "a state of another sequence");
    }
    state = {static_cast<float>(prefix.size()), short_hash(prefix)};
  }
}

}  // namespace

NextToken hashed_next_token(int vocab_size, TokenId never) {
  return [=](std::span<const TokenId> prefix) {
    const auto token = static_cast<TokenId>(hash_of(prefix) % static_cast<std::uint64_t>(vocab_size));
    return token == never ? static_cast<TokenId>((token + 1) % vocab_size) : token;
  };
}

ScriptedModel::ScriptedModel(ScriptedModelOptions options)
    : options_(std::move(options)),
      info_(scripted_info(options_.vocab_size, options_.context_length, options_.windows, options_.has_state)) {
  if (!options_.next_token) options_.next_token = hashed_next_token(options_.vocab_size);
}

mx::array ScriptedModel::forward(nn::ForwardContext& context) {
  const kernels::RaggedBatch& batch = context.batch;
  const std::size_t num_attention = options_.windows.size();
  check_batch(batch, std::span(context.kv).first(num_attention));
  if (options_.before_step) options_.before_step(batch);
  std::vector<Kept> layers;
  for (std::size_t i = 0; i < num_attention; ++i) {
    kernels::KvStorage& storage = context.kv[i];
    layers.push_back(
        {.slots = write_slots(context, storage), .group = storage.group, .window = info_.layers[i].window});
  }

  if (options_.has_state) update_states(context, layers);
  if (options_.spoils) spoil(context, layers.front(), options_.spoils);

  const auto vocab_size = static_cast<std::size_t>(options_.vocab_size);
  // As the kernels of a CPU give them: MLX's own arrays ask for memory when they are freed.
  kernels::cpu::HostArray logits =
      kernels::cpu::make_array({static_cast<int>(batch.logit_rows.size()), options_.vocab_size});
  auto wanted = batch.logit_rows.begin();
  for (const kernels::BatchRow& row : batch.rows) {
    for (; wanted != batch.logit_rows.end() && *wanted < row.first_token + row.num_tokens; ++wanted) {
      const auto prefix = read_prefix(layers, batch, row, row.num_computed + *wanted - row.first_token + 1);
      const auto first = static_cast<std::size_t>(wanted - batch.logit_rows.begin()) * vocab_size;
      const std::span<float> out = std::span(logits.data + first, vocab_size);
      const std::uint64_t hash = hash_of(prefix);
      for (std::size_t i = 0; i < vocab_size; ++i)
        out[i] = static_cast<float>(engine::sampling::mix_bits(hash + i) % 997U) / 500;
      out[static_cast<std::size_t>(options_.next_token(prefix))] = kNextLogit;
      if (options_.edit_logits) options_.edit_logits(prefix, out);
      if (options_.spoils && sees_none(layers.front(), batch, row, static_cast<int>(prefix.size()))) {
        std::ranges::fill(out, std::numeric_limits<float>::quiet_NaN());
      }
    }
  }
  return std::move(logits.array);
}

UniformModel::UniformModel(int vocab_size) : info_(scripted_info(vocab_size, 1 << 20, {0}, false)) {}

mx::array UniformModel::forward(nn::ForwardContext& context) {
  return mx::zeros({static_cast<int>(context.batch.logit_rows.size()), info_.vocab_size}, mx::float32);
}

engine::ModelLoader scripted_loader(ScriptedModelOptions options) {
  return [options = std::move(options)]() -> Result<engine::LoadedModel> {
    return engine::LoadedModel{.kernels = kernels::make_kernels({.num_threads = 1, .reference = true}),
                               .model = std::make_unique<ScriptedModel>(options)};
  };
}

engine::ModelLoader uniform_loader(int vocab_size) {
  return [vocab_size]() -> Result<engine::LoadedModel> {
    return engine::LoadedModel{.kernels = kernels::make_kernels({.num_threads = 1, .reference = true}),
                               .model = std::make_unique<UniformModel>(vocab_size)};
  };
}

std::size_t scripted_bytes_per_token() {
  const auto kernels = kernels::make_kernels({.num_threads = 1, .reference = true});
  const kernels::KvStorage one =
      kernels->make_kv_storage({.num_blocks = 1, .block_tokens = 1, .num_kv_heads = 1, .head_dim = kHeadDim});
  return one.keys.nbytes() + one.values.nbytes();
}

}  // namespace redpoll::test
