// What the tests of the disk tier in the engine share: small blocks and files, requests with logprobs.
#pragma once

#include <chrono>
#include <filesystem>
#include <string>
#include <thread>
#include <vector>

#include "support/temporary_folder.h"
#include "unit/engine/engine_fixture.h"

namespace redpoll::engine {

namespace fs = std::filesystem;
using test::Collected;
using test::expect_same;
using test::make_prompt;
using test::make_request;
using test::make_scored_request;
using test::run;
using test::Running;
using test::start_engine;
using test::submit;
using test::TemporaryFolder;

inline constexpr std::size_t kMiB = std::size_t{1} << 20U;
inline constexpr int kBlockTokens = 8;
inline constexpr int kRunBlocks = 2;
inline constexpr int kWindow = 20;

inline EngineOptions options_with(const fs::path& directory, std::size_t prompt_cache_bytes) {
  return {.max_batch = 3,
          .step_tokens = 13,
          .block_tokens = kBlockTokens,
          .context_length = 128,
          .memory_budget_bytes = 64 * kMiB,
          .prompt_cache_bytes = prompt_cache_bytes,
          .ssd_cache = SsdCacheOptions{.directory = directory,
                                       .max_bytes = 64 * kMiB,
                                       .least_tokens = 1,
                                       .run_blocks = kRunBlocks,
                                       .max_queued_bytes = 4 * kMiB,
                                       .quiet_before_writes = std::chrono::milliseconds(0),
                                       .restore_slack = std::chrono::seconds(20)}};  // a busy machine changes nothing
}

/// A golden model with keys and values in these codes.
inline std::string name_of_case(const std::string& model, kernels::KvQuantization kv) {
  switch (kv) {
    case kernels::KvQuantization::kOff: return model;
    case kernels::KvQuantization::k8: return model + "_q8";
    case kernels::KvQuantization::k4: return model + "_q4";
    case kernels::KvQuantization::kConfig: return model + "_config";
  }
  return model;
}

inline std::vector<fs::path> files_in(const fs::path& directory) {
  std::vector<fs::path> files;
  for (const auto& entry : fs::recursive_directory_iterator(directory)) {
    if (entry.is_regular_file()) files.push_back(entry.path());
  }
  return files;
}

/// Until all that memory has is on the disk.
inline void wait_for_files(const Engine& engine) {
  const auto is_done = [&] {
    const auto stats = *engine.stats().ssd_cache;
    return stats.waiting == 0 && stats.tier.queued_bytes == 0;
  };
  while (!is_done()) std::this_thread::sleep_for(std::chrono::milliseconds(1));
}

inline ModelLoader scripted_with_identity(const test::ScriptedModelOptions& script) {
  return [script]() -> Result<LoadedModel> {
    auto loaded = test::scripted_loader(script)();
    loaded->identity = "scripted";
    return loaded;
  };
}

}  // namespace redpoll::engine
