// A warmed-up step asks the allocator for small things only, as many as the step before, and keeps none of them.
// Sanitizers bring an allocator of their own, which this would hide from them.
#if !defined(__SANITIZE_ADDRESS__) && !defined(__SANITIZE_THREAD__)

#include <filesystem>

#include "checkpoint/checkpoint.h"
#include "engine/checkpoint_loader.h"
#include "kernels/cpu/buffer.h"
#include "models/model.h"
#include "unit/engine/engine_fixture.h"
#include "unit/engine/observed_allocator.h"

namespace redpoll::engine {
namespace {

/// What the engine thread has asked for when a step's forward pass begins.
struct Reading {
  std::size_t allocations = 0;
  std::size_t largest = 0;  // since the reading before
  std::int64_t live = 0;
  std::size_t recycled = 0;
};

/// Takes a reading, then passes on.
class ObservedModel final : public models::Model {
 public:
  ObservedModel(std::unique_ptr<models::Model> model, std::vector<Reading>& readings)
      : model_(std::move(model)), readings_(readings) {}

  [[nodiscard]] const models::ModelInfo& info() const override { return model_->info(); }
  [[nodiscard]] models::mx::array forward(nn::ForwardContext& context) override {
    test::Allocations& asked = test::allocations();
    readings_.push_back(
        {asked.count, std::exchange(asked.largest, 0), test::live_bytes(), kernels::cpu::recycled_bytes()});
    return model_->forward(context);
  }

 private:
  std::unique_ptr<models::Model> model_;
  std::vector<Reading>& readings_;
};

constexpr int kSteps = 240;
constexpr int kWarm = 40;  // steps
/// Arrays of MLX are a few small allocations each, and a layer makes about fifteen.
constexpr std::size_t kMaxPerLayer = 100;
constexpr std::size_t kMaxBeside = 200;
/// Events and statistics of every step, some 100 bytes each, stand in vectors that double.
constexpr std::size_t kMaxBytes = std::size_t{64} * 1024;
constexpr std::int64_t kMaxGrowth = std::int64_t{64} * 1024;

TEST(AllocationTest, AWarmDecodeStepAllocatesLittleAndKeepsNothing) {
  const auto folder = std::filesystem::path(REDPOLL_TEST_DATA) / "golden" / "models" / "mistral_f32";
  auto opened = checkpoint::open_checkpoint(folder);
  ASSERT_TRUE(opened) << opened.error().message;
  const auto num_layers = static_cast<std::size_t>(opened->config.num_hidden_layers);

  std::vector<Reading> readings;
  readings.reserve(kSteps + 10);
  const auto loader = [load = checkpoint_loader(std::move(*opened), {.num_threads = 1}),
                       &readings]() -> Result<LoadedModel> {
    ASSIGN_OR_RETURN(LoadedModel loaded, load());
    loaded.model = std::make_unique<ObservedModel>(std::move(loaded.model), readings);
    return loaded;
  };
  const auto engine = test::start_engine({.max_batch = 2, .step_tokens = 64, .block_tokens = 8}, loader);
  ASSERT_GE(engine->stats().context.tokens, kSteps + 8);
  const test::Running running = test::submit(*engine, test::make_request(test::make_prompt(5, 1), kSteps), kSteps);
  ASSERT_TRUE(running.events->wait_until_done());

  ASSERT_GE(readings.size(), static_cast<std::size_t>(kSteps));
  std::vector<std::size_t> per_step;
  for (std::size_t i = kWarm + 1; i < kSteps; ++i) {
    per_step.push_back(readings[i].allocations - readings[i - 1].allocations);
    EXPECT_LE(per_step.back(), kMaxPerLayer * num_layers + kMaxBeside) << "step " << i;
    EXPECT_LE(readings[i].largest, kMaxBytes) << "step " << i;
  }
  // The last steps, of the longest context, are like the first.
  const auto usual = [](std::span<std::size_t> counts) {
    std::ranges::nth_element(counts, counts.begin() + static_cast<std::ptrdiff_t>(counts.size() / 2));
    return counts[counts.size() / 2];
  };
  const std::span<std::size_t> all(per_step);
  const std::size_t first = usual(all.first(50));
  const std::size_t last = usual(all.last(50));
  RecordProperty("allocations_per_step", static_cast<int>(last));
  EXPECT_LE(last, first + 2);
  EXPECT_LE(readings[kSteps - 1].live - readings[kWarm].live, kMaxGrowth);
  EXPECT_LE(readings[kSteps - 1].recycled, readings[kWarm].recycled + kMaxBytes);
}

}  // namespace
}  // namespace redpoll::engine

#endif
