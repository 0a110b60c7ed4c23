// A token's result depends neither on the tokens that come with it nor on the number of threads, in any kernel:
// matrices and attention have tests of their own, which go through every way they are cut; all others are here.
#include <functional>
#include <string>
#include <vector>

#include "unit/kernels/fixtures.h"

namespace redpoll::kernels {
namespace {

constexpr int kTokens = 300;
constexpr int kHeads = 6;
constexpr int kHeadDim = 96;
constexpr int kDim = kHeads * kHeadDim;

/// What tokens [first, last) of the inputs become.
using Operation = std::function<mx::array(const Kernels& kernels, int first, int last)>;

struct Inputs {
  mx::array x = random_array({kTokens, kDim}, 1);
  mx::array y = random_array({kTokens, kDim}, 2);
  mx::array weight = random_array({kDim}, 3);
  std::shared_ptr<TestMatrix> table = quantized_matrix(kTokens, kDim, 4, 32, WeightType::kF16);
  RopeSpec rope{.head_dim = kHeadDim, .dims = kHeadDim, .inverse_frequencies = {}};

  Inputs() {
    for (int i = 0; i < kHeadDim / 2; ++i) rope.inverse_frequencies.push_back(1.0F / static_cast<float>(1 + i));
  }
  [[nodiscard]] mx::array xs(int first, int last) const { return rows_of(x, first, last); }
  [[nodiscard]] mx::array ys(int first, int last) const { return rows_of(y, first, last); }
};

std::vector<std::pair<std::string, Operation>> operations(const Inputs& in) {
  constexpr float kEps = 1e-5F;
  return {
      {"rms_norm", [&](auto& k, int a, int b) { return k.rms_norm(in.xs(a, b), in.weight, kEps); }},
      {"rms_norm of heads",
       [&](auto& k, int a, int b) {
         const mx::array heads = mx::reshape(in.xs(a, b), {b - a, kHeads, kHeadDim});
         return k.rms_norm(heads, mx::slice(in.weight, {0}, {kHeadDim}), kEps);
       }},
      {"sum of add_rms_norm",
       [&](auto& k, int a, int b) { return k.add_rms_norm(in.xs(a, b), in.ys(a, b), in.weight, kEps).sum; }},
      {"norm of add_rms_norm",
       [&](auto& k, int a, int b) { return k.add_rms_norm(in.xs(a, b), in.ys(a, b), in.weight, kEps).normalized; }},
      {"add", [&](auto& k, int a, int b) { return k.add(in.xs(a, b), in.ys(a, b)); }},
      {"add_bias", [&](auto& k, int a, int b) { return k.add_bias(in.xs(a, b), in.weight); }},
      {"silu_multiply",
       [&](auto& k, int a, int b) { return k.gate_multiply(in.xs(a, b), in.ys(a, b), GateActivation::kSilu); }},
      {"sigmoid",
       [&](auto& k, int a, int b) { return k.gate_multiply(in.xs(a, b), in.ys(a, b), GateActivation::kSigmoid); }},
      {"product",
       [&](auto& k, int a, int b) { return k.gate_multiply(in.xs(a, b), in.ys(a, b), GateActivation::kIdentity); }},
      {"gate_rows",
       [&](auto& k, int a, int b) { return k.gate_rows(in.xs(a, b), mx::slice(in.ys(a, b), {0, 0}, {b - a, 1})); }},
      {"gelu_multiply",
       [&](auto& k, int a, int b) { return k.gate_multiply(in.xs(a, b), in.ys(a, b), GateActivation::kGeluTanh); }},
      {"scale", [&](auto& k, int a, int b) { return k.scale(in.xs(a, b), 0.3F); }},
      {"softcap", [&](auto& k, int a, int b) { return k.softcap(in.xs(a, b), 2.0F); }},
      {"rope",
       [&](auto& k, int a, int b) { return k.rope(in.xs(a, b), make_batch({{a, b - a}}, 16, kTokens), in.rope); }},
      {"gather_rows",
       [&](auto& k, int a, int b) { return k.make_matrix(in.table->view)->gather_rows(mx::arange(a, b, mx::int32)); }},
      {"layer_norm", [&](auto& k, int a, int b) { return k.layer_norm(in.xs(a, b), in.weight, in.weight, kEps); }},
      {"gelu_tanh", [&](auto& k, int a, int b) { return k.gelu_tanh(in.xs(a, b)); }},
      {"take_columns", [&](auto& k, int a, int b) { return k.take_columns(in.xs(a, b), 5, 37); }},
      {"take_rows",
       [&](auto& k, int a, int b) {
         std::vector<std::int32_t> rows;
         for (int row = a; row < b; ++row) rows.push_back(row);
         return k.take_rows(in.x, rows);
       }},
  };
}

class CompanyTest : public CpuVariantTest {};
INSTANTIATE_FOR_EVERY_VARIANT(CompanyTest);

TEST_P(CompanyTest, ATokenGetsTheSameBitsInAnyCompany) {
  const Inputs inputs;
  for (const auto& [name, operation] : operations(inputs)) {
    const auto single = cpu(1);
    std::vector<std::uint32_t> alone;
    for (int token = 0; token < kTokens; ++token) {
      const auto bits = bits_of(operation(*single, token, token + 1));
      alone.insert(alone.end(), bits.begin(), bits.end());
    }
    for (const int threads : {1, 2, 4}) {
      const auto kernels = cpu(threads);
      for (const int tokens : {1, 2, 3, 7, 8, 33, 128, kTokens}) {
        const auto wanted =
            std::vector(alone.end() - std::ptrdiff_t{tokens} * std::ssize(alone) / kTokens, alone.end());
        ASSERT_EQ(bits_of(operation(*kernels, kTokens - tokens, kTokens)), wanted)
            << name << ", " << tokens << " tokens, " << threads << " threads";
      }
    }
  }
}

}  // namespace
}  // namespace redpoll::kernels
