#include "server/served_model.h"

#include <algorithm>
#include <cstdio>
#include <future>
#include <utility>

#include "base/clock.h"
#include "engine/checkpoint_loader.h"
#include "engine/stats/step_profile.h"
#include "server/process_memory.h"

namespace redpoll::server {
namespace {

constexpr double kBytesPerGb = 1U << 30U;

std::string ready_line(const engine::EngineStats& stats, double seconds) {
  char line[160];
  std::snprintf(line, sizeof line, "ready after %.1f s: %.0f MB of weights, %.0f MB of cache, context %d tokens",
                seconds, static_cast<double>(stats.weight_bytes) / 1e6, static_cast<double>(stats.kv_bytes_total) / 1e6,
                stats.context.tokens);
  return line;
}

// Templates write the tokens that begin and end a text themselves, by these names.
text::TemplateOptions template_options(const checkpoint::TokenizerInfo& tokenizer) {
  text::TemplateOptions options;
  if (tokenizer.bos) options.bos_token = tokenizer.bos->text;
  if (tokenizer.eos) options.eos_token = tokenizer.eos->text;
  return options;
}

struct TextSide {
  std::shared_ptr<const text::Tokenizer> tokenizer;
  std::shared_ptr<const text::ChatTemplate> chat_template;
  std::vector<TokenId> tool_markup_ids;
};

Result<TextSide> make_text_side(const std::string& tokenizer_json, const std::optional<std::string>& chat_template,
                                const text::TemplateOptions& options) {
  TextSide made;
  ASSIGN_OR_RETURN(made.tokenizer, text::Tokenizer::from_json(tokenizer_json));
  if (chat_template) {
    ASSIGN_OR_RETURN(made.chat_template, text::ChatTemplate::compile(*chat_template, options));
    if (const auto format = made.chat_template->tool_call_format()) {
      made.tool_markup_ids = text::tool_call_markup_ids(*format, *made.tokenizer);
    }
  }
  return made;
}

}  // namespace

engine::EngineOptions engine_options(const EngineSettings& settings) {
  engine::EngineOptions options;
  options.max_batch = settings.max_batch;
  options.max_queue = settings.max_queue;
  options.step_tokens = settings.tokens_in_step();
  options.exact = settings.exact;
  options.context_length = settings.context_length;
  options.prompt_cache_bytes =
      static_cast<std::size_t>(settings.prompt_cache_gb.value_or(kPromptCacheGb) * kBytesPerGb);
  if (!settings.ssd_cache.empty()) {
    options.ssd_cache = engine::SsdCacheOptions{
        .directory = settings.ssd_cache,
        .max_bytes = static_cast<std::uint64_t>(settings.ssd_cache_max_gb.value_or(kSsdCacheMaxGb) * kBytesPerGb),
        .verify = settings.ssd_cache_verify.value_or(true)};
  }
  options.memory_budget_bytes = static_cast<std::size_t>(settings.memory_budget_gb * kBytesPerGb);
  return options;
}

Status check_tokenizer(const checkpoint::Checkpoint& checkpoint) {
  if (!checkpoint.tokenizer_json.empty()) return {};
  return fail(ErrorCode::kCorruptFile, checkpoint.path.string() +
                                           " has no tokenizer.json, which says how a text becomes tokens; copy it from "
                                           "where the model came from");
}

Result<std::shared_ptr<ServedModel>> load_served_model(const ModelLocation& location, const LoadOptions& options,
                                                       const Progress& progress) {
  const Clock::TimePoint started_at = system_clock().now();
  progress("loading " + location.name + " from " + location.path.string());
  ASSIGN_OR_RETURN(checkpoint::Checkpoint checkpoint, checkpoint::open_checkpoint(location.path));
  RETURN_IF_ERROR(check_tokenizer(checkpoint));

  auto model = std::make_shared<ServedModel>();
  model->id = options.alias.empty() ? location.name : options.alias;
  model->system_fingerprint = "fp_" + checkpoint.fingerprint.substr(0, 12);
  model->generation = checkpoint.generation;
  model->stop_ids = checkpoint.tokenizer.eos_ids;

  // Both take about as long: the text side on a thread of its own, the weights on the engine's.
  progress("preparing weights");
  std::future<Result<TextSide>> text_side =
      std::async(std::launch::async, make_text_side, std::move(checkpoint.tokenizer_json), checkpoint.chat_template,
                 template_options(checkpoint.tokenizer));
  engine::EngineOptions engine = engine_options(options.engine);
  kernels::KernelOptions kernels = options.engine.kernel_options();
  if (options.profile) {
    engine.profile = options.profile;
    kernels.profile = options.profile->kernels();
  }
  const auto identity = engine.ssd_cache ? engine::Identity::kOfContents : engine::Identity::kNone;
  ASSIGN_OR_RETURN(model->engine,
                   engine::Engine::start(engine, engine::checkpoint_loader(std::move(checkpoint), kernels, identity)));
  ASSIGN_OR_RETURN(TextSide made, text_side.get());
  model->tokenizer = std::move(made.tokenizer);
  model->chat_template = std::move(made.chat_template);
  model->tool_markup_ids = std::move(made.tool_markup_ids);
  release_free_memory();  // what reading the checkpoint and the tokenizer took
  const engine::EngineStats stats = model->engine->stats();
  model->vocab_size = stats.vocab_size;
  model->context = stats.context;
  model->can_go_back = std::ranges::all_of(stats.kv_groups, [](const engine::KvGroupStats& group) {
    return group.kind == cache::CacheKind::kAttention && group.window == 0;
  });
  progress(ready_line(stats, milliseconds_between(started_at, system_clock().now()) / 1000));
  return model;
}

}  // namespace redpoll::server
