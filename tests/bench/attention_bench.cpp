// attention_bench: what attention costs in one step of the starter model's shape (30 layers, 9 query and 3 kv heads of
// 64), layer after layer as in a forward pass, so that K and V come from memory as far as they do there.
//
// usage: attention_bench [THREADS [VARIANT [STEP]]]
//   THREADS  default, also for 0: one per physical core
//   VARIANT  only this one, as in REDPOLL_CPU; default, also for all: every variant that this machine has
//   STEP     only steps whose name contains this
//
// One row per workload and kernel variant: milliseconds of attention of all layers (median of the repetitions, and the
// least), the bytes of K and V that a perfect kernel reads once, and the multiply-adds of the tokens that are seen.
#include <fmt/format.h>
#include <mlx/ops.h>
#include <mlx/transforms.h>

#include <algorithm>
#include <charconv>
#include <chrono>
#include <numeric>
#include <random>
#include <string>
#include <vector>

#include "kernels/cpu/cpu_kernels.h"
#include "kernels/cpu/topology.h"

namespace redpoll::kernels {
namespace {

constexpr int kLayers = 30;
constexpr int kHeads = 9;
constexpr int kKvHeads = 3;
constexpr int kHeadDim = 64;
constexpr int kBlockTokens = 32;
constexpr double kSecondsPerWorkload = 1.0;

struct Workload {
  std::string name;
  int batch = 1;
  int computed = 0;  // tokens in the cache before the step
  int tokens = 1;    // of each sequence in the step
};

const std::vector<Workload> kWorkloads{{"decode at 128", 1, 128, 1},     {"decode at 2048", 1, 2048, 1},
                                       {"decode at 8192", 1, 8191, 1},   {"8 decode at 128", 8, 128, 1},
                                       {"8 decode at 2048", 8, 2048, 1}, {"8 decode at 8192", 8, 8191, 1},
                                       {"prefill 512 at 0", 1, 0, 512},  {"prefill 512 at 1536", 1, 1536, 512}};

mx::array random_array(mx::Shape shape, unsigned seed) {
  std::size_t count = 1;
  for (const auto dim : shape) count *= static_cast<std::size_t>(dim);
  std::mt19937 generator(seed);
  std::normal_distribution<float> normal;
  std::vector<float> values(count);
  for (float& value : values) value = normal(generator);
  return mx::array(values.data(), std::move(shape), mx::float32);
}

/// Blocks in ascending order, interleaved between sequences as if they had grown side by side.
RaggedBatch make_batch(const Workload& workload) {
  RaggedBatch batch;
  batch.block_tokens = kBlockTokens;
  const int blocks = (workload.computed + workload.tokens + kBlockTokens - 1) / kBlockTokens;
  for (int i = 0; i < workload.batch; ++i) {
    batch.rows.push_back({batch.num_tokens(), workload.tokens, workload.computed, i * blocks, blocks});
    for (int t = 0; t < workload.tokens; ++t) {
      batch.tokens.push_back(0);
      batch.positions.push_back(workload.computed + t);
    }
    for (int block = 0; block < blocks; ++block) batch.block_ids.push_back(block * workload.batch + i);
  }
  return batch;
}

/// Every token's K and V, written as one prompt per sequence: the pages of the pool become resident.
void fill(const Kernels& kernels, KvStorage& storage, const Workload& workload, const mx::array& rows) {
  Workload all = workload;
  all.tokens = workload.computed + workload.tokens;
  all.computed = 0;
  RaggedBatch batch = make_batch(all);
  const int per_sequence = all.tokens;
  for (BatchRow& row : batch.rows) row.first_token = 0;  // the same rows for each sequence
  batch.tokens.resize(static_cast<std::size_t>(per_sequence));
  batch.positions.resize(static_cast<std::size_t>(per_sequence));
  kernels.write_kv(storage, rows, rows, batch);
}

struct Times {
  double median_ms = 0;
  double least_ms = 0;
  double write_ms = 0;  // of K and V, median
};

double median(std::vector<double> times) {
  std::ranges::sort(times);
  return times[times.size() / 2];
}

Times measure(const Kernels& kernels, const Workload& workload, std::vector<KvStorage>& layers) {
  const RaggedBatch batch = make_batch(workload);
  const mx::array q = random_array({batch.num_tokens(), kHeads, kHeadDim}, 1);
  const mx::array kv = random_array({batch.num_tokens(), kKvHeads, kHeadDim}, 2);
  std::vector<double> attention;
  std::vector<double> writing;
  const auto run = [&] {
    using std::chrono::steady_clock;
    using Milliseconds = std::chrono::duration<double, std::milli>;
    const auto start = steady_clock::now();
    steady_clock::duration written{0};
    for (KvStorage& storage : layers) {
      const auto before = steady_clock::now();
      kernels.write_kv(storage, kv, kv, batch);
      written += steady_clock::now() - before;
      static_cast<void>(kernels.paged_attention(q, storage, batch, {.scale = 0.125F}));
    }
    attention.push_back(Milliseconds(steady_clock::now() - start - written).count());
    writing.push_back(Milliseconds(written).count());
  };
  run();
  run();
  const int repetitions = std::clamp(static_cast<int>(kSecondsPerWorkload * 1000 / attention.back()), 5, 300);
  attention.clear();
  writing.clear();
  for (int i = 0; i < repetitions; ++i) run();
  return {median(attention), std::ranges::min(attention), median(writing)};
}

void report(const Kernels& kernels, const Workload& workload, const KvPacking& packing) {
  const int context = workload.computed + workload.tokens;
  const int blocks = (context + kBlockTokens - 1) / kBlockTokens * workload.batch;
  const mx::array rows = random_array({context, kKvHeads, kHeadDim}, 2);
  std::vector<KvStorage> layers;
  for (int i = 0; i < kLayers; ++i) {
    layers.push_back(kernels.make_kv_storage({blocks, kBlockTokens, kKvHeads, kHeadDim, packing}));
    fill(kernels, layers.back(), workload, rows);
  }
  const Times times = measure(kernels, workload, layers);
  const double bytes_per_token = static_cast<double>(layers[0].bytes_per_block()) / kBlockTokens * kLayers;
  const double bytes = bytes_per_token * context * workload.batch;
  // A token sees all before it and itself: scores and weighted values take a multiply and an add each.
  const double seen = workload.tokens * (workload.computed + (workload.tokens + 1) / 2.0) * workload.batch;
  const double operations = 4.0 * seen * kHeads * kHeadDim * kLayers;
  const std::string_view stored = packing.bits == 8                ? "q8"
                                  : packing.bits == 4              ? "q4"
                                  : layers[0].keys.itemsize() == 2 ? "f16"
                                                                   : "f32";
  fmt::print("{:<20} {:<13} {:<4} {:>9.3f} {:>9.3f} {:>8.1f} {:>8.1f} {:>8.1f} {:>9.3f}\n", workload.name,
             kernels.name(), stored, times.median_ms, times.least_ms, bytes / 1e6, bytes / times.median_ms / 1e6,
             operations / times.median_ms / 1e6, times.write_ms);
}

int to_int(std::string_view text) {
  int value = 0;
  std::from_chars(text.data(), text.data() + text.size(), value);
  return value;
}

void run(int threads, std::string_view only_variant, std::string_view only_step) {
  fmt::print("{} threads, {} layers, {}/{} heads of {}, blocks of {}\n\n", threads, kLayers, kHeads, kKvHeads, kHeadDim,
             kBlockTokens);
  fmt::print("{:<20} {:<13} {:<4} {:>9} {:>9} {:>8} {:>8} {:>8} {:>9}\n", "step", "kernels", "KV", "ms", "least",
             "KV MB", "GB/s", "GFLOP/s", "write ms");
  for (const Workload& workload : kWorkloads) {
    if (workload.name.find(only_step) == std::string::npos) continue;
    for (const cpu::Variant variant : cpu::available_variants()) {
      if (only_variant != "all" && cpu::variant_name(variant) != only_variant) continue;
      for (const KvType type : {KvType::kF16, KvType::kF32}) {
        report(cpu::CpuKernels(variant, threads, Activations::kFloat32, type), workload, {});
      }
      for (const int bits : {8, 4}) {
        const KvPacking packing{.bits = bits, .group_size = usual_kv_group(kHeadDim)};
        report(cpu::CpuKernels(variant, threads, Activations::kFloat32), workload, packing);
      }
    }
  }
}

}  // namespace
}  // namespace redpoll::kernels

int main(int argc, char** argv) {
  const int threads = argc > 1 ? redpoll::kernels::to_int(argv[1]) : 0;
  redpoll::kernels::run(threads > 0 ? threads : redpoll::kernels::cpu::num_usable_cores(), argc > 2 ? argv[2] : "all",
                        argc > 3 ? argv[3] : "");
}
