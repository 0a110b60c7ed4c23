// `gate_logits`: the logits of every token of windows of token ids, for gate.py. Runs the engine's own model runner;
// knows nothing of texts, of references, or of what the logits are compared with.
//
// Standard input: a window a line, as decimal token ids. Standard output: one line, "VOCABULARY KERNEL_SET", then for
// each window its rows of logits, one for each token, as float32 in this machine's byte order.
#include <algorithm>
#include <cstdio>
#include <iostream>
#include <memory>
#include <span>
#include <sstream>
#include <string>
#include <vector>

#include "checkpoint/checkpoint.h"
#include "cli/command_line.h"
#include "cli/flag_values.h"
#include "cli/shared_flags.h"
#include "engine/checkpoint_loader.h"
#include "engine/model_runner.h"

namespace redpoll {
namespace {

constexpr int kBlockTokens = 32;

struct Options {
  std::string model;
  kernels::KernelOptions kernels;
  int step_tokens = 512;
};

Result<std::vector<TokenId>> parse_window(const std::string& line, int vocab_size) {
  std::vector<TokenId> ids;
  std::istringstream words(line);
  for (std::string word; words >> word;) {
    ASSIGN_OR_RETURN(const std::int64_t id, cli::parse_whole(word, {0, vocab_size - 1}));
    ids.push_back(static_cast<TokenId>(id));
  }
  return ids;
}

/// Tokens [first, first + count) of a window whose earlier tokens are computed; in each cache group it has all blocks
/// from the first on.
void fill_batch(kernels::RaggedBatch& batch, int num_groups, std::span<const TokenId> window, int first, int count) {
  batch.clear();
  batch.block_tokens = kBlockTokens;
  const int num_blocks = (first + count + kBlockTokens - 1) / kBlockTokens;
  batch.rows.push_back({.num_tokens = count, .num_computed = first, .num_blocks = num_blocks});
  for (int i = 0; i < num_groups * num_blocks; ++i) batch.block_ids.push_back(i % num_blocks);
  for (int i = 0; i < count; ++i) {
    batch.tokens.push_back(window[static_cast<std::size_t>(first + i)]);
    batch.positions.push_back(first + i);
    batch.logit_rows.push_back(i);
  }
}

Status write_window(engine::ModelRunner& runner, std::span<const TokenId> window, int step_tokens) {
  kernels::RaggedBatch batch;
  const int num_groups = static_cast<int>(cache::make_cache_groups(runner.info().layers).size());
  const int num_tokens = static_cast<int>(window.size());
  for (int first = 0; first < num_tokens; first += step_tokens) {
    fill_batch(batch, num_groups, window, first, std::min(step_tokens, num_tokens - first));
    const std::span<const float> logits = runner.run(batch).logits;
    if (std::fwrite(logits.data(), sizeof(float), logits.size(), stdout) != logits.size()) {
      return fail(ErrorCode::kIo, "cannot write to standard output");
    }
  }
  std::fflush(stdout);
  return {};
}

Status run(const Options& options) {
  ASSIGN_OR_RETURN(checkpoint::Checkpoint checkpoint, checkpoint::open_checkpoint(options.model));
  ASSIGN_OR_RETURN(engine::LoadedModel loaded, engine::checkpoint_loader(std::move(checkpoint), options.kernels)());
  const models::ModelInfo info = loaded.model->info();
  std::printf("%d %s\n", info.vocab_size, std::string(loaded.kernels->name()).c_str());
  std::fflush(stdout);

  const int num_blocks = (info.context_length + kBlockTokens - 1) / kBlockTokens;
  const std::size_t num_groups = cache::make_cache_groups(info.layers).size();
  engine::ModelRunner runner(std::move(loaded), std::vector(num_groups, num_blocks), kBlockTokens,
                             engine::RowsOfAPass::kAll);
  int line_number = 0;
  for (std::string line; std::getline(std::cin, line);) {
    const std::string where = "line " + std::to_string(++line_number) + ": ";
    const auto window = parse_window(line, info.vocab_size);
    if (!window) return fail(ErrorCode::kInvalidArgument, where + window.error().message);
    if (window->empty() || window->size() > static_cast<std::size_t>(info.context_length)) {
      return fail(ErrorCode::kInvalidArgument, where + "expected 1 to " + std::to_string(info.context_length) +
                                                   " token ids, got " + std::to_string(window->size()));
    }
    RETURN_IF_ERROR(write_window(runner, *window, options.step_tokens));
  }
  return {};
}

}  // namespace
}  // namespace redpoll

int main(int argc, char** argv) {
  using namespace redpoll;
  Options options;
  cli::CommandLine command_line;
  cli::FlagSet& flags = command_line.add_verb("logits", "Print the logits of windows of token ids", [&options] {
    const Status status = run(options);
    return status ? cli::kExitFine : cli::report(status.error());
  });
  flags.text("--model", "M", options.model, "A folder with config.json, or a .gguf file");
  cli::add_choice(flags, "--activations", options.kernels.activations, kernels::parse_activations,
                  "float32, int16 or int8");
  cli::add_choice(flags, "--kv", options.kernels.kv_type, kernels::parse_kv_type, "Keys and values: f16 or f32")
      .or_else("f16");
  cli::add_choice(flags, "--kv-quant", options.kernels.kv_quantization, kernels::parse_kv_quantization,
                  "Keys and values in codes: off, 8, 4 or config")
      .or_else("off");
  flags.whole("--threads", options.kernels.num_threads, {1, 1024}, "Threads for computing").or_else("physical cores");
  flags.whole("--step-tokens", options.step_tokens, {1, 65'536}, "Tokens computed in one step");
  std::vector<std::string> arguments(argv + 1, argv + argc);
  arguments.insert(arguments.begin(), "logits");
  return command_line.run(std::move(arguments));
}
