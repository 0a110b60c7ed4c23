// Engine: the thread that owns the device. Everything MLX happens on it: loading, scheduling, running, sampling. The
// public functions below may be called from any thread and never wait for a step.
#pragma once

#include <cstddef>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "base/clock.h"
#include "base/error.h"
#include "cache/cache_groups.h"
#include "cache/prompt_cache.h"
#include "engine/context_limit.h"
#include "engine/disk/ssd_cache.h"
#include "engine/fit/model_footprint.h"
#include "engine/request.h"
#include "engine/stats/cache_explanation.h"

namespace redpoll::kernels {
class Kernels;
}
namespace redpoll::models {
class Model;
struct ModelInfo;
}  // namespace redpoll::models

namespace redpoll::engine {

class StepProfile;

struct EngineOptions {
  int max_batch = 8;      // sequences computed in one step
  int max_queue = 64;     // requests waiting beyond those
  int step_tokens = 256;  // token budget of a step; at least max_batch
  /// Each row of a step is computed on its own, prompts in chunks of kernels::kExactPromptChunk tokens with the last
  /// one apart, and what follows token by token: what kernels of the exact tier need to give mlx-lm's bits.
  bool exact = false;
  int block_tokens = 32;                // tokens per cache block
  int context_length = 0;               // 0: the model's, as memory allows
  std::size_t memory_budget_bytes = 0;  // weights, cache and a step; 0: 75 % of what this process may use
  std::size_t prompt_cache_bytes = 0;   // of that, for what has ended; 0: nothing is kept. Not with `exact`.
  std::optional<SsdCacheOptions> ssd_cache = std::nullopt;  // with a prompt cache only
  std::shared_ptr<StepProfile> profile = nullptr;           // set: told where the time of steps goes
};

/// What the engine runs. The kernels must outlive the model and belong to this engine alone.
struct LoadedModel {
  std::unique_ptr<kernels::Kernels> kernels;
  std::unique_ptr<models::Model> model;
  /// What keys, values and states are computed from and by: the same text, the same bits. Empty: no disk keeps them.
  std::string identity = {};
  std::vector<kernels::KvPacking> kv_packings = {};              // of each layer; empty: nothing is packed
  std::vector<std::optional<kernels::KvFloats>> kv_floats = {};  // of each layer; empty: the kernels' own

  /// What the model says of itself, with these.
  [[nodiscard]] models::ModelInfo info() const;
};
/// Called once, on the engine thread.
using ModelLoader = std::function<Result<LoadedModel>()>;

enum class EngineState { kLoading, kReady, kFailed, kStopped };

struct RequestStats {
  std::string name;
  std::string state;  // "waiting", "prefill", "decode"
  int prompt_tokens = 0;
  int computed_tokens = 0;
  int generated_tokens = 0;
};

/// Layers that share block tables.
struct KvGroupStats {
  cache::CacheKind kind = cache::CacheKind::kAttention;
  int window = 0;  // tokens that one sees; 0: all before it
  int blocks_total = 0;
  std::size_t bytes_per_block = 0;  // in all layers of the group
};

struct EngineStats {
  EngineState state = EngineState::kLoading;
  std::string reason;  // why it is kFailed
  int running = 0;
  int waiting = 0;
  double step_ms_p50 = 0;
  double tokens_per_s = 0;          // generated, over the last seconds
  double prefill_tokens_per_s = 0;  // computed prompt tokens, over the last seconds
  std::vector<RequestStats> requests;

  std::string kv_scheme;  // what keys and values are: "f16", "q8", "mixed", ...
  int block_tokens = 0;
  std::vector<KvGroupStats> kv_groups;
  int blocks_total = 0;  // of all groups together
  int blocks_used = 0;
  std::size_t kv_bytes_total = 0;
  std::size_t kv_bytes_used = 0;
  cache::PromptCacheStats prompt_cache;
  std::optional<SsdCacheStats> ssd_cache;
  std::size_t weight_bytes = 0;
  ModelFootprint footprint;
  std::size_t step_bytes = 0;  // activations and logits of a full step, estimated
  std::size_t memory_budget_bytes = 0;
  ContextLimit context;
  int vocab_size = 0;

  // Counters since the start.
  std::size_t steps = 0;
  std::size_t preemptions = 0;
  std::size_t cancellations = 0;  // of whole requests
  std::size_t failed_steps = 0;
  std::size_t prompt_tokens_total = 0;
  std::size_t generated_tokens_total = 0;
};

class Engine {
 public:
  /// Starts the thread, loads the model on it and returns when it is ready to serve or has failed to load.
  [[nodiscard]] static Result<std::unique_ptr<Engine>> start(const EngineOptions& options, ModelLoader loader,
                                                             const Clock& clock = system_clock());
  ~Engine();  // cancels what runs, then joins
  Engine(const Engine&) = delete;
  Engine& operator=(const Engine&) = delete;

  [[nodiscard]] RequestId next_request_id();

  /// Queues a request. kQueueFull when the queue is; kContextLengthExceeded, with both numbers, when the prompt can
  /// never fit; kInvalidArgument for an empty prompt or a token id outside the vocabulary; kUnavailable when the
  /// engine has failed or stops. After success exactly one FinishEvent per choice or one ErrorEvent follows.
  [[nodiscard]] Status submit(Request request);

  /// Ends a request, or one of its choices, in whatever state it is, at the next step at the latest. Ids that are
  /// unknown and choices that have ended are ignored.
  void cancel(RequestId id, std::optional<int> choice = std::nullopt);

  /// How far the prompt cache would take a request, and why no further. Waits for the step that runs, so it is not
  /// for threads that must not wait. Fails as `submit` does for such a prompt, but that a full queue does not matter.
  [[nodiscard]] Result<CacheExplanation> explain(CacheQuery query);

  /// A snapshot; takes microseconds even while a step runs.
  [[nodiscard]] EngineStats stats() const;

 private:
  class Impl;
  explicit Engine(std::unique_ptr<Impl> impl);
  std::unique_ptr<Impl> impl_;
};

}  // namespace redpoll::engine
