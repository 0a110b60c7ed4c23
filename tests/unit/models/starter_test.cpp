// The starter model from its GGUF file against mlx-lm in float32 on the equivalent MLX checkpoint: greedy token ids of
// eight prompts, all in one batch.
#include <gmock/gmock.h>
#include <mlx/ops.h>
#include <mlx/transforms.h>

#include <algorithm>
#include <filesystem>

#include "base/file.h"
#include "base/json.h"
#include "checkpoint/checkpoint.h"
#include "models/registry.h"
#include "unit/models/batches.h"

namespace redpoll {
namespace {

namespace fs = std::filesystem;
namespace mx = mlx::core;

struct Case {
  std::string prompt;
  std::vector<TokenId> prompt_token_ids;
  std::vector<TokenId> token_ids;
};

std::vector<TokenId> ids_of(const json::value& value) {
  std::vector<TokenId> ids;
  for (const auto& id : value.as_array()) ids.push_back(static_cast<TokenId>(id.as_int64()));
  return ids;
}

std::vector<Case> read_cases() {
  const auto text = read_file(fs::path(REDPOLL_TEST_DATA) / "golden" / "models" / "starter_greedy.json");
  EXPECT_TRUE(text) << text.error().message;
  const auto parsed = parse_json(*text);
  EXPECT_TRUE(parsed) << parsed.error().message;
  std::vector<Case> cases;
  for (const auto& entry : parsed->as_array()) {
    cases.push_back({std::string(entry.at("prompt").as_string()), ids_of(entry.at("prompt_token_ids")),
                     ids_of(entry.at("token_ids"))});
  }
  return cases;
}

fs::path starter_file() {
  for (const auto& entry : fs::recursive_directory_iterator(fs::path(REDPOLL_DEPS) / "starter")) {
    if (entry.path().extension() == ".gguf") return entry.path();
  }
  return {};
}

// The likeliest token of each logit row.
std::vector<TokenId> argmax_rows(const mx::array& logits) {
  mx::array rows = mx::contiguous(logits);
  mx::eval(rows);
  const int vocab = rows.shape(1);
  std::vector<TokenId> best;
  for (int i = 0; i < rows.shape(0); ++i) {
    const float* row = rows.data<float>() + static_cast<std::ptrdiff_t>(i) * vocab;
    best.push_back(static_cast<TokenId>(std::max_element(row, row + vocab) - row));
  }
  return best;
}

TEST(StarterModelTest, ContinuesLikeMlxLmInFloat32) {
  const std::vector<Case> cases = read_cases();
  ASSERT_EQ(cases.size(), 8U);
  const auto checkpoint = checkpoint::open_checkpoint(starter_file());
  ASSERT_TRUE(checkpoint) << checkpoint.error().message;
  const auto kernels = kernels::make_kernels({});
  const auto model = models::make_model(*checkpoint, *kernels);
  ASSERT_TRUE(model) << model.error().message;

  const models::ModelInfo& info = (*model)->info();
  EXPECT_EQ(info.vocab_size, 49152);
  EXPECT_EQ(info.context_length, 8192);
  cache::KvCache cache = test::make_cache(*kernels, info.layers, 256);

  std::vector<test::FedSequence> sequences;
  std::int32_t first_block = 0;
  for (const Case& item : cases) {
    const std::size_t total = item.prompt_token_ids.size() + item.token_ids.size();
    sequences.push_back({item.prompt_token_ids, 0, test::make_blocks(total, first_block, 1)});
    first_block += static_cast<std::int32_t>(sequences.back().blocks.size());
  }
  for (std::size_t step = 0; step < cases[0].token_ids.size(); ++step) {
    kernels::RaggedBatch batch;
    for (auto& sequence : sequences) {
      test::feed(batch, sequence, static_cast<int>(sequence.tokens.size()) - sequence.num_computed);
    }
    batch.logit_rows.clear();  // only each row's last token
    for (const auto& row : batch.rows) batch.logit_rows.push_back(row.first_token + row.num_tokens - 1);
    nn::ForwardContext context{*kernels, batch, cache.layers(), cache.states()};
    const std::vector<TokenId> next = argmax_rows((*model)->forward(context));
    for (std::size_t i = 0; i < sequences.size(); ++i) sequences[i].tokens.push_back(next[i]);
  }
  for (std::size_t i = 0; i < cases.size(); ++i) {
    const auto& tokens = sequences[i].tokens;
    EXPECT_EQ(std::vector<TokenId>(tokens.begin() + static_cast<std::ptrdiff_t>(cases[i].prompt_token_ids.size()),
                                   tokens.end()),
              cases[i].token_ids)
        << cases[i].prompt;
  }
}

TEST(StarterModelTest, TheReferenceContinuationIsTheKnownOne) {
  // Also what an independent float64 forward gives.
  const std::vector<TokenId> known = {504,  3575, 282, 4649, 314, 7042, 30,   2,  198,  2,    1,
                                      9690, 198,  2,   198,  1,   4093, 198,  57, 5248, 3946, 288,
                                      7198, 253,  725, 1406, 281, 260,  2342, 30, 339,  3543};
  const std::vector<TokenId> recorded = read_cases().front().token_ids;
  EXPECT_EQ(std::vector<TokenId>(recorded.begin(), recorded.begin() + 32), known);
}

}  // namespace
}  // namespace redpoll
