// Times the matmuls of the starter model (4-bit projections of 30 layers, 8-bit head, 94 MB of weights that no cache
// holds) for batches of 1 to 512 rows, against what the machine can read, and multiply with the variant's own vectors,
// at best.
//
//   matmul_bench [variant] [float32|int16|int8] [threads] [rows...]
//
// Without arguments: every variant that the machine has, all kinds of activations, all usable cores. Batches of more
// than 16 rows are parts of a prompt: their head sees one row. Each figure is the best of several passes.
#include <algorithm>
#include <chrono>
#include <cstdio>
#include <cstdlib>
#include <functional>
#include <random>
#include <string>
#include <string_view>
#include <vector>

#include "bench/roofline.h"
#include "kernels/cpu/buffer.h"
#include "kernels/cpu/cpu_kernels.h"
#include "kernels/cpu/topology.h"

namespace redpoll::kernels {
namespace {

using Clock = std::chrono::steady_clock;

constexpr int kHidden = 576;
constexpr int kInner = 1536;
constexpr int kKvDim = 192;
constexpr int kVocabulary = 49'152;
constexpr int kLayers = 30;
constexpr int kGroupSize = 32;
constexpr int kMostHeadRows = 16;

double seconds_since(Clock::time_point start) { return std::chrono::duration<double>(Clock::now() - start).count(); }

/// Random weights with scales and biases of about 0.02.
std::shared_ptr<const Matrix> random_matrix(const Kernels& kernels, int out, int in, int bits) {
  static std::mt19937 generator(1);
  const auto groups = static_cast<std::size_t>(out) * static_cast<std::size_t>(in / kGroupSize);
  std::vector<std::uint32_t> words(groups * static_cast<std::size_t>(bits));
  std::ranges::generate(words, std::ref(generator));
  std::vector<std::uint16_t> halves(groups);
  std::ranges::generate(halves, [] { return static_cast<std::uint16_t>(0x2400U | (generator() & 0x3ffU)); });
  const auto small = std::as_bytes(std::span(halves));
  return kernels.make_matrix({.out_features = out,
                              .in_features = in,
                              .type = WeightType::kF16,
                              .bits = bits,
                              .group_size = kGroupSize,
                              .weight = std::as_bytes(std::span(words)),
                              .scales = small,
                              .biases = small,
                              .storage = nullptr});
}

/// Matrices of one input.
struct Group {
  std::string_view name;
  std::vector<std::shared_ptr<const Matrix>> matrices;
};

struct Workload {
  std::vector<Group> groups;  // in the order of a pass
  double bytes = 0;
};

Workload make_workload(const Kernels& kernels) {
  Workload workload;
  const auto add = [&](std::string_view name, int in, int bits, std::vector<int> outs) {
    Group group{name, {}};
    for (const int out : outs) group.matrices.push_back(random_matrix(kernels, out, in, bits));
    for (const auto& matrix : group.matrices) workload.bytes += static_cast<double>(matrix->num_bytes());
    workload.groups.push_back(std::move(group));
  };
  for (int layer = 0; layer < kLayers; ++layer) {
    add("qkv", kHidden, 4, {kHidden, kKvDim, kKvDim});
    add("out", kHidden, 4, {kHidden});
    add("gate+up", kHidden, 4, {kInner, kInner});
    add("down", kInner, 4, {kHidden});
  }
  add("head", kHidden, 8, {kVocabulary});
  return workload;
}

mx::array random_rows(int rows, int dim) {
  cpu::HostArray x = cpu::make_array({rows, dim});
  std::mt19937 generator(2);
  std::uniform_real_distribution<float> values(-1.0F, 1.0F);
  std::generate_n(x.data, rows * dim, [&] { return values(generator); });
  return x.array;
}

constexpr std::string_view kGroupNames[] = {"qkv", "out", "gate+up", "down", "head"};

struct Pass {
  double seconds[std::size(kGroupNames)] = {};
  double multiply_adds = 0;
  [[nodiscard]] double total() const {
    double sum = 0;
    for (const double s : seconds) sum += s;
    return sum;
  }
};

Pass run_pass(const Kernels& kernels, const Workload& workload, int rows) {
  const int head_rows = rows > kMostHeadRows ? 1 : rows;
  const mx::array hidden = random_rows(rows, kHidden);
  const mx::array inner = random_rows(rows, kInner);
  const mx::array last = random_rows(head_rows, kHidden);
  Pass pass;
  for (const Group& group : workload.groups) {
    const auto index = static_cast<std::size_t>(std::ranges::find(kGroupNames, group.name) - std::begin(kGroupNames));
    const mx::array& x = group.name == "head" ? last : group.name == "down" ? inner : hidden;
    std::vector<const Matrix*> matrices;
    for (const auto& matrix : group.matrices) {
      matrices.push_back(matrix.get());
      pass.multiply_adds += double{1} * x.shape(0) * matrix->in_features() * matrix->out_features();
    }
    const auto start = Clock::now();
    static_cast<void>(kernels.multiply_all(x, matrices));
    pass.seconds[index] += seconds_since(start);
  }
  return pass;
}

/// What the machine reads (GB/s) and multiplies (GMAC/s) at best.
struct Peaks {
  double reading = 0;
  double multiply_adds = 0;
};

Peaks measure_peaks(cpu::Variant variant, Activations activations, int threads) {
  const bench::Roofline roofline = bench::measure_roofline(variant, threads);
  double gop_per_s = roofline.float_gop_per_s;
  if (activations == Activations::kInt16) gop_per_s = roofline.int16_gop_per_s;
  if (activations == Activations::kInt8) gop_per_s = roofline.int8_gop_per_s;
  return {roofline.read_gb_per_s, gop_per_s / 2};
}

void print_row(int rows, const Pass& best, double bytes, const Peaks& peaks) {
  std::printf("%5d", rows);
  for (const double s : best.seconds) std::printf(" %9.3f", s * 1e3);
  const double read = bytes / best.total() / 1e9;
  const double multiply_adds = best.multiply_adds / best.total() / 1e9;
  std::printf(" %9.3f %9.0f %7.1f %5.0f%% %9.1f %5.0f%%\n", best.total() * 1e3, rows / best.total(), read,
              100 * read / peaks.reading, multiply_adds, 100 * multiply_adds / peaks.multiply_adds);
}

void run_table(cpu::Variant variant, Activations activations, int threads, const std::vector<int>& batches) {
  const cpu::CpuKernels kernels(variant, threads, activations);
  const Workload workload = make_workload(kernels);
  const Peaks peaks = measure_peaks(variant, activations, threads);
  std::printf("\n%s, %d threads; best read %.1f GB/s, best arithmetic %.0f GMAC/s\n",
              std::string(kernels.name()).c_str(), threads, peaks.reading, peaks.multiply_adds);
  std::printf("%5s", "rows");
  for (const std::string_view name : kGroupNames) std::printf(" %6s ms", std::string(name).c_str());
  std::printf(" %6s ms %9s %7s %6s %9s %6s\n", "all", "tok/s", "GB/s", "", "GMAC/s", "");
  for (const int rows : batches) {
    Pass best;
    const auto start = Clock::now();
    for (int pass = 0; pass < 3 || seconds_since(start) < 0.6; ++pass) {
      const Pass next = run_pass(kernels, workload, rows);
      if (pass == 0 || next.total() < best.total()) best = next;
    }
    print_row(rows, best, workload.bytes, peaks);
  }
}

}  // namespace
}  // namespace redpoll::kernels

int main(int count, char** arguments) {
  using namespace redpoll::kernels;
  std::vector<cpu::Variant> variants = cpu::available_variants();
  std::vector<Activations> kinds{Activations::kFloat32, Activations::kInt16, Activations::kInt8};
  if (count > 1) {
    const auto chosen = cpu::choose_variant(arguments[1]);
    if (!chosen) {
      std::fprintf(stderr, "%s\n", chosen.error().message.c_str());
      return 2;
    }
    variants = {*chosen};
  }
  if (count > 2) {
    const auto kind = parse_activations(arguments[2]);
    if (!kind) {
      std::fprintf(stderr, "%s\n", kind.error().message.c_str());
      return 2;
    }
    kinds = {*kind};
  }
  const int threads = count > 3 ? std::atoi(arguments[3]) : cpu::num_usable_cores();
  std::vector<int> batches{1, 2, 4, 8, 16, 128, 512};
  if (count > 4) batches.clear();
  for (int i = 4; i < count; ++i) batches.push_back(std::atoi(arguments[i]));
  for (const cpu::Variant variant : variants) {
    for (const Activations activations : kinds) run_table(variant, activations, threads, batches);
  }
  return 0;
}
