#include "engine/memory_budget.h"

#include <algorithm>
#include <cstdint>
#include <cstdio>
#include <string>

#include "engine/available_memory.h"
#include "engine/scheduler.h"
#include "kernels/kernel_options.h"

namespace redpoll::engine {
namespace {

std::string in_mib(std::size_t bytes) {
  char text[32];
  (void)std::snprintf(text, sizeof text, "%.1f MiB", static_cast<double>(bytes) / (1U << 20U));
  return text;
}

std::size_t in_size(int number) { return static_cast<std::size_t>(number); }

int blocks_for(int num_tokens, int block_tokens) { return (num_tokens + block_tokens - 1) / block_tokens; }

/// Blocks of each group.
using Blocks = std::vector<int>;

std::size_t bytes_of(const MemoryRequest& request, const Blocks& blocks) {
  std::size_t bytes = 0;
  for (std::size_t i = 0; i < blocks.size(); ++i) bytes += in_size(blocks[i]) * request.groups[i].bytes_per_block;
  return bytes;
}

/// The fewest with which one sequence of `context` tokens comes to its end, a token at a time.
Blocks least_blocks(const MemoryRequest& request, int context) {
  Blocks blocks;
  const int all = blocks_for(context, request.block_tokens);
  for (const GroupCost& group : request.groups) {
    if (group.kind == cache::CacheKind::kRecurrent) {
      blocks.push_back(1);
    } else {
      const int seen = cache::blocks_spanned(group.window, request.block_tokens);
      blocks.push_back(group.window == 0 ? all : std::min(all, seen));
    }
  }
  return blocks;
}

/// What windows of `num_sequences` take, whose tokens of a step come on top, and their states; none for the group that
/// sees all tokens.
Blocks window_blocks(const MemoryRequest& request, int num_sequences, int context) {
  Blocks blocks;
  const std::int64_t sequences = num_sequences;
  const std::int64_t most = sequences * blocks_for(context, request.block_tokens);
  for (const GroupCost& group : request.groups) {
    const std::int64_t wanted = sequences * (cache::blocks_spanned(group.window, request.block_tokens) + 1) +
                                blocks_for(request.step_tokens, request.block_tokens);
    if (group.kind == cache::CacheKind::kRecurrent) {
      blocks.push_back(num_sequences);
    } else {
      const std::int64_t useful = std::min({most, wanted, std::int64_t{INT32_MAX} / request.block_tokens});
      blocks.push_back(group.window == 0 ? 0 : static_cast<int>(useful));
    }
  }
  return blocks;
}

std::size_t bytes_beside_the_cache(const MemoryRequest& request) {
  return request.weight_bytes + request.step_bytes + request.disk_bytes;
}

std::unexpected<Error> does_not_fit(const MemoryRequest& request, int context) {
  const std::size_t cache_bytes = least_cache_bytes(request, context);
  const bool has_disk = request.disk_bytes > 0;
  return fail(ErrorCode::kInvalidArgument,
              "the model does not fit: weights take " + in_mib(request.weight_bytes) +
                  ", the activations and logits of a step " + in_mib(request.step_bytes) +
                  (has_disk ? ", the buffers of --ssd-cache " + in_mib(request.disk_bytes) : "") + " and a cache of " +
                  std::to_string(context) + " tokens " + in_mib(cache_bytes) + ", together " +
                  in_mib(bytes_beside_the_cache(request) + cache_bytes) + ", but the memory budget is " +
                  in_mib(request.budget_bytes) + "; raise --memory-budget, " +
                  (has_disk ? "leave out --ssd-cache, " : "") +
                  "lower --step-tokens or --max-batch, or serve a smaller model",
              "memory-budget");
}

/// The group that sees all tokens: its cost and, if there is one, its number of blocks.
struct FullGroup {
  std::size_t bytes_per_block = 0;
  std::optional<std::size_t> index;
};

FullGroup full_group(const MemoryRequest& request) {
  const auto group = std::ranges::find_if(request.groups, [](const GroupCost& cost) {
    return cost.kind == cache::CacheKind::kAttention && cost.window == 0;
  });
  if (group == request.groups.end()) return {};
  return {.bytes_per_block = group->bytes_per_block, .index = static_cast<std::size_t>(group - request.groups.begin())};
}

/// Windows for as many sequences as possible; nothing if not for one, with a step's tokens, beside `least` tokens.
std::optional<Blocks> affordable_windows(const MemoryRequest& request, int least, std::size_t cache_bytes) {
  const FullGroup full = full_group(request);
  const std::size_t limit = full.index ? cache_bytes / 2 : cache_bytes;
  const std::size_t rest = in_size(blocks_for(least, request.block_tokens)) * full.bytes_per_block;
  const int context = request.context_length > 0 ? request.context_length : request.model_context;
  for (int num_sequences = request.max_batch; num_sequences > 0; --num_sequences) {
    Blocks windows = window_blocks(request, num_sequences, context);
    const std::size_t bytes = bytes_of(request, windows);
    if (bytes <= limit && bytes + rest <= cache_bytes) return windows;
  }
  return std::nullopt;
}

/// What a snapshot takes of windows and states.
Blocks snapshot_blocks(const MemoryRequest& request) {
  Blocks blocks;
  for (const GroupCost& group : request.groups) {
    const bool is_full = group.kind == cache::CacheKind::kAttention && group.window == 0;
    const int seen = cache::blocks_spanned(group.window, request.block_tokens);
    blocks.push_back(is_full ? 0 : group.kind == cache::CacheKind::kRecurrent ? 1 : seen);
  }
  return blocks;
}

/// To `blocks`, those of as many snapshots as half of the prompt cache, and of `bytes`, allows.
void add_snapshots(const MemoryRequest& request, std::size_t bytes, Blocks& blocks) {
  constexpr std::size_t kMost = 256;
  const Blocks of_one = snapshot_blocks(request);
  const std::size_t cost = bytes_of(request, of_one);
  if (cost == 0) return;
  const std::size_t number = std::min(std::min(request.prompt_cache_bytes, bytes) / 2 / cost, kMost);
  for (std::size_t i = 0; i < blocks.size(); ++i) blocks[i] += of_one[i] * static_cast<int>(number);
}

/// To `blocks`, of the group that sees all tokens, as many as fit; returns the context that they allow.
int add_full_blocks(const MemoryRequest& request, int wanted, std::size_t bytes, Blocks& blocks) {
  const FullGroup full = full_group(request);
  if (!full.index) return wanted;
  const std::size_t affordable = bytes / std::max<std::size_t>(full.bytes_per_block, 1);
  const std::size_t context = std::min(in_size(wanted), affordable * in_size(request.block_tokens));
  const std::size_t useful =
      in_size(blocks_for(static_cast<int>(context), request.block_tokens)) * in_size(request.max_batch) +
      request.prompt_cache_bytes / std::max<std::size_t>(full.bytes_per_block, 1);
  blocks[*full.index] = static_cast<int>(std::min({useful, affordable, std::size_t{INT32_MAX}}));
  return static_cast<int>(context);
}

/// The longest context up to `wanted` that one sequence can have; a multiple of a block unless it is all of it.
int longest_context(const MemoryRequest& request, int wanted, std::size_t cache_bytes) {
  const auto fits = [&](int blocks) {
    return bytes_of(request, least_blocks(request, blocks * request.block_tokens)) <= cache_bytes;
  };
  int fitting = 0;
  int beyond = blocks_for(wanted, request.block_tokens) + 1;
  while (beyond - fitting > 1) {
    const int middle = fitting + (beyond - fitting) / 2;
    (fits(middle) ? fitting : beyond) = middle;
  }
  return static_cast<int>(std::min(std::int64_t{wanted}, std::int64_t{fitting} * request.block_tokens));
}

}  // namespace

std::size_t step_bytes(const StepShape& step) {
  const auto sequences = static_cast<std::size_t>(step.max_batch);
  const std::size_t tokens =
      std::min(static_cast<std::size_t>(step.step_tokens), sequences * static_cast<std::size_t>(step.context));
  const std::size_t logit_rows = std::min(tokens, sequences * std::size_t{kMaxScoredTokensPerStep});
  const std::size_t logits = logit_rows * static_cast<std::size_t>(step.vocab_size);
  const std::size_t tokens_of_pass =
      std::min({tokens, static_cast<std::size_t>(step.context), std::size_t{kernels::kExactPromptChunk}});
  return (2 * tokens * step.activations_per_token + logits + logits / 4) * sizeof(float) +
         tokens_of_pass * step.unpacked_bytes_per_token;
}

std::optional<std::string> budget_warning(std::size_t budget_bytes, std::size_t available_bytes) {
  if (budget_bytes <= available_bytes) return std::nullopt;
  return "the memory budget of " + in_mib(budget_bytes) + " is more than the " + in_mib(available_bytes) +
         " that this process may use; lower --memory-budget, or it may be ended for want of memory";
}

std::size_t budget_of(std::size_t memory_bytes) { return memory_bytes / 4 * 3; }

std::size_t default_memory_budget() { return budget_of(available_memory_bytes()); }

Result<MemoryPlan> plan_memory(MemoryRequest request) {
  if (request.budget_bytes == 0) request.budget_bytes = default_memory_budget();
  if (request.context_length > request.model_context) {
    return fail(ErrorCode::kInvalidArgument,
                "expected --context-length of at most " + std::to_string(request.model_context) +
                    ", which the model was trained for, got " + std::to_string(request.context_length),
                "context-length");
  }
  const bool is_asked_for = request.context_length > 0;
  const int wanted = is_asked_for ? request.context_length : request.model_context;
  const int least = is_asked_for ? wanted : std::min(wanted, request.block_tokens);

  const std::size_t without_cache = bytes_beside_the_cache(request);
  if (without_cache > request.budget_bytes) return does_not_fit(request, least);
  const std::size_t cache_bytes = request.budget_bytes - without_cache;
  if (least_cache_bytes(request, least) > cache_bytes) return does_not_fit(request, least);

  MemoryPlan plan{.budget_bytes = request.budget_bytes,
                  .step_bytes = request.step_bytes,
                  .groups = request.groups,
                  .num_blocks = {}};
  const std::optional<Blocks> windows = affordable_windows(request, least, cache_bytes);
  if (windows) {
    plan.num_blocks = *windows;
    const std::size_t rest = cache_bytes - bytes_of(request, *windows);
    const std::size_t of_least = in_size(blocks_for(least, request.block_tokens)) * full_group(request).bytes_per_block;
    add_snapshots(request, std::min(rest / 4, rest - of_least), plan.num_blocks);
    plan.max_context =
        add_full_blocks(request, wanted, cache_bytes - bytes_of(request, plan.num_blocks), plan.num_blocks);
  } else {
    plan.max_context = longest_context(request, wanted, cache_bytes);
    plan.num_blocks = least_blocks(request, plan.max_context);
  }
  for (int& num_blocks : plan.num_blocks) num_blocks = std::min(num_blocks, INT32_MAX / request.block_tokens);
  return plan;
}

std::size_t least_cache_bytes(const MemoryRequest& request, int context) {
  return bytes_of(request, least_blocks(request, context));
}

int sequences_at_once(const MemoryRequest& request, const MemoryPlan& plan, int context) {
  const FullGroup full = full_group(request);
  const auto has_room = [&](int num_sequences) {
    Blocks wanted = window_blocks(request, num_sequences, context);
    if (full.index) wanted[*full.index] = num_sequences * blocks_for(context, request.block_tokens);
    return std::ranges::equal(wanted, plan.num_blocks, std::ranges::less_equal());
  };
  int num_sequences = request.max_batch;
  while (num_sequences > 1 && !has_room(num_sequences)) --num_sequences;
  return num_sequences;
}

std::size_t cache_bytes(const MemoryPlan& plan) {
  std::size_t bytes = 0;
  for (std::size_t i = 0; i < plan.groups.size(); ++i) {
    bytes += static_cast<std::size_t>(plan.num_blocks[i]) * plan.groups[i].bytes_per_block;
  }
  return bytes;
}

Status check_whole_chunks(const MemoryPlan& plan, int block_tokens) {
  for (std::size_t i = 0; i < plan.groups.size(); ++i) {
    const GroupCost& group = plan.groups[i];
    if (group.kind == cache::CacheKind::kRecurrent || group.window == 0) continue;
    const int num_tokens = std::min(group.window + kernels::kExactPromptChunk, plan.max_context);
    const int whole_context = (plan.max_context + block_tokens - 1) / block_tokens;
    if (plan.num_blocks[i] >= std::min(cache::blocks_spanned(num_tokens, block_tokens), whole_context)) continue;
    return fail(ErrorCode::kInvalidArgument,
                "the memory budget leaves no room for " + std::to_string(num_tokens) +
                    " tokens of a window, which --exact needs; raise --memory-budget",
                "memory-budget");
  }
  return {};
}

}  // namespace redpoll::engine
