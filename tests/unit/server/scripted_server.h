// A ServedModel without weights: whatever it is asked, it writes the given answer, then the token that ends answers.
// Everything else is real: tokenizer, template, engine, cache.
#pragma once

#include <gtest/gtest.h>

#include <algorithm>
#include <chrono>
#include <functional>
#include <memory>
#include <stdexcept>
#include <string>
#include <thread>
#include <vector>

#include "server/served_model.h"
#include "support/scripted_model.h"
#include "unit/server/tiny_tokenizer.h"

namespace redpoll::server {

/// Prompts of chats end with the start token, which tells the model where its answer begins.
inline constexpr std::string_view kTinyTemplate =
    "{% for message in messages %}[{{ message.role }}]{{ message.content }}{% endfor %}"
    "{% if add_generation_prompt %}<|start|>{% endif %}";

struct ScriptOptions {
  int throw_at_position = -1;               // computing this position throws; -1: none does
  std::chrono::milliseconds step_delay{0};  // how long a step takes
  int max_batch = 8;
  int max_queue = 64;
  std::string_view chat_template = kTinyTemplate;
};

/// A prompt after which the scripted model begins its answer.
inline std::vector<TokenId> scripted_prompt(std::string_view text) {
  std::vector<TokenId> ids = byte_tokens(text);
  ids.push_back(kStartToken);
  return ids;
}

inline TokenId next_scripted_token(std::span<const TokenId> prefix, const std::vector<TokenId>& answer) {
  const auto start = std::ranges::find(prefix, kStartToken);
  if (start == prefix.end()) return 'x';  // still in the prompt
  const auto written = static_cast<std::size_t>(prefix.end() - start) - 1;
  return written < answer.size() ? answer[written] : kEndToken;
}

inline std::shared_ptr<ServedModel> scripted_server(const std::string& answer, const ScriptOptions& script = {}) {
  auto model = std::make_shared<ServedModel>();
  model->id = "scripted";
  model->system_fingerprint = "fp_scripted";
  model->tokenizer = tiny_tokenizer();
  model->chat_template = text::ChatTemplate::compile(script.chat_template).value();
  model->stop_ids = {kEndToken};

  test::ScriptedModelOptions options;
  options.vocab_size = kFirstExtraToken;
  options.context_length = 8192;
  options.next_token = [ids = byte_tokens(answer)](std::span<const TokenId> prefix) {
    return next_scripted_token(prefix, ids);
  };
  options.before_step = [script](const kernels::RaggedBatch& batch) {
    if (script.step_delay.count() > 0) std::this_thread::sleep_for(script.step_delay);
    for (const kernels::BatchRow& row : batch.rows) {
      const int position = script.throw_at_position - row.num_computed;
      if (script.throw_at_position >= 0 && position >= 0 && position < row.num_tokens) {
        throw std::runtime_error("the script says so");
      }
    }
  };
  auto engine = engine::Engine::start({.max_batch = script.max_batch,
                                       .max_queue = script.max_queue,
                                       .step_tokens = 512,
                                       .block_tokens = 32,
                                       .context_length = 0,
                                       .memory_budget_bytes = std::size_t{16} << 20U},
                                      test::scripted_loader(options));
  if (!engine) throw std::runtime_error(engine.error().message);
  model->engine = *std::move(engine);
  model->vocab_size = model->engine->stats().vocab_size;
  model->context = model->engine->stats().context;
  return model;
}

inline bool eventually(const std::function<bool()>& condition,
                       std::chrono::milliseconds limit = std::chrono::milliseconds{3000}) {
  const auto end = std::chrono::steady_clock::now() + limit;
  while (!condition()) {
    if (std::chrono::steady_clock::now() > end) return false;
    std::this_thread::sleep_for(std::chrono::milliseconds{2});
  }
  return true;
}

/// Nothing runs, nothing waits and every cache block is free.
inline bool becomes_idle(const ServedModel& model, std::chrono::milliseconds limit = std::chrono::milliseconds{3000}) {
  return eventually(
      [&] {
        const engine::EngineStats stats = model.engine->stats();
        return stats.running == 0 && stats.waiting == 0 && stats.blocks_used == 0;
      },
      limit);
}

}  // namespace redpoll::server
