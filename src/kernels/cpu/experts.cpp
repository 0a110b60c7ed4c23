// Mixtures of experts: tokens are brought together by expert, so that each expert's weights are read once a step, and
// what their experts made of them is summed in the order in which the router named these. So a token's result depends
// on no other token.
#include <algorithm>
#include <cmath>
#include <limits>
#include <numeric>
#include <optional>
#include <utility>
#include <vector>

#include "kernels/cpu/buffer.h"
#include "kernels/cpu/cpu_kernels.h"
#include "kernels/cpu/host_view.h"
#include "kernels/cpu/packed_matrix.h"

namespace redpoll::kernels::cpu {
namespace {

class PackedExperts final : public Experts {
 public:
  PackedExperts(const std::shared_ptr<Context>& context, std::span<const MatrixWeights> weights) : Experts(weights) {
    matrices_.reserve(weights.size());
    for (const MatrixWeights& one : weights) matrices_.push_back(std::make_unique<PackedMatrix>(context, one));
  }

  [[nodiscard]] std::size_t num_bytes() const override {
    return std::transform_reduce(matrices_.begin(), matrices_.end(), std::size_t{0}, std::plus<>(),
                                 [](const auto& matrix) { return matrix->num_bytes(); });
  }
  [[nodiscard]] const PackedMatrix& operator[](int expert) const {
    return *matrices_[static_cast<std::size_t>(expert)];
  }

 private:
  std::vector<std::unique_ptr<PackedMatrix>> matrices_;
};

/// A token's logits as its experts, the likeliest first and of equals the first, and their weights.
void route_token(std::span<const float> logits, const RoutingSpec& spec, std::vector<std::int32_t>& order,
                 std::int32_t* experts, float* weights) {
  order.resize(logits.size());
  std::iota(order.begin(), order.end(), 0);
  const auto rank_of = [&](std::int32_t expert) {  // what is no number comes last
    const float logit = logits[static_cast<std::size_t>(expert)];
    return std::isnan(logit) ? -std::numeric_limits<float>::infinity() : logit;
  };
  const auto before = [&](std::int32_t a, std::int32_t b) {
    const float x = rank_of(a);
    const float y = rank_of(b);
    return x == y ? a < b : x > y;
  };
  const auto chosen = order.begin() + spec.top_k;
  std::nth_element(order.begin(), chosen - 1, order.end(), before);
  std::sort(order.begin(), chosen, before);
  std::copy(order.begin(), chosen, experts);

  const auto exponential = [&, largest = logits[static_cast<std::size_t>(order.front())]](std::int32_t expert) {
    return std::exp(logits[static_cast<std::size_t>(expert)] - largest);
  };
  float sum = 0;
  const bool of_all = spec.weights == RoutingWeights::kSoftmax;
  const std::size_t num_summed = of_all ? logits.size() : static_cast<std::size_t>(spec.top_k);
  if (of_all) std::iota(order.begin(), order.end(), 0);  // an order of its own for every sum
  for (std::size_t i = 0; i < num_summed; ++i) sum += exponential(order[i]);
  for (int i = 0; i < spec.top_k; ++i) weights[i] = exponential(experts[i]) / sum;
}

/// Where the rows of each expert begin among those of all, and which row each choice of each token is.
struct Places {
  std::vector<int> first_row;  // (experts + 1)
  std::vector<int> row;        // (tokens * top_k)
};

Places sort_by_expert(std::span<const std::int32_t> experts, int num_experts) {
  Places places{.first_row = std::vector<int>(static_cast<std::size_t>(num_experts) + 1),
                .row = std::vector<int>(experts.size())};
  for (const std::int32_t expert : experts) ++places.first_row[static_cast<std::size_t>(expert) + 1];
  std::partial_sum(places.first_row.begin(), places.first_row.end(), places.first_row.begin());
  std::vector<int> next(places.first_row.begin(), places.first_row.end() - 1);
  for (std::size_t i = 0; i < experts.size(); ++i) places.row[i] = next[static_cast<std::size_t>(experts[i])]++;
  return places;
}

/// The rows of x that each expert multiplies.
void add_jobs(const Experts& experts, const Places& places, const float* x, float* out, std::vector<MatmulJob>& jobs) {
  const auto& packed = static_cast<const PackedExperts&>(experts);  // see make_experts
  for (int expert = 0; expert < experts.num_experts(); ++expert) {
    const int first = places.first_row[static_cast<std::size_t>(expert)];
    const int last = places.first_row[static_cast<std::size_t>(expert) + 1];
    if (first == last) continue;
    jobs.push_back({.matrix = &packed[expert],
                    .x = x + std::int64_t{first} * experts.in_features(),
                    .num_rows = last - first,
                    .out = out + std::int64_t{first} * experts.out_features()});
  }
}

/// To each row that of its expert.
void add_biases(const Loops& loops, const std::optional<mx::array>& biases, const Places& places, float* rows) {
  if (!biases) return;
  const HostView all(*biases);
  const std::int64_t dim = biases->shape(1);
  for (std::size_t expert = 0; expert + 1 < places.first_row.size(); ++expert) {
    for (std::int64_t row = places.first_row[expert]; row < places.first_row[expert + 1]; ++row) {
      loops.add(rows + row * dim, all.data() + static_cast<std::int64_t>(expert) * dim, dim, rows + row * dim);
    }
  }
}

}  // namespace

std::shared_ptr<const Experts> CpuKernels::make_experts(std::vector<MatrixWeights> weights) const {
  return std::make_shared<PackedExperts>(context_, weights);
}

Routing CpuKernels::route(const mx::array& logits, const RoutingSpec& spec) const {
  const HostView input(logits);
  const int tokens = logits.shape(0);
  const auto num_experts = static_cast<std::size_t>(logits.shape(1));
  std::vector<std::int32_t> experts(static_cast<std::size_t>(tokens) * static_cast<std::size_t>(spec.top_k));
  HostArray weights = make_array({tokens, spec.top_k});
  const std::optional<HostView> scales =
      spec.expert_scales ? std::optional<HostView>(*spec.expert_scales) : std::nullopt;
  std::vector<std::int32_t> order;
  for (int token = 0; token < tokens; ++token) {
    const std::int64_t first = std::int64_t{token} * spec.top_k;
    route_token({input.data() + static_cast<std::size_t>(token) * num_experts, num_experts}, spec, order,
                experts.data() + first, weights.data + first);
  }
  for (std::size_t i = 0; scales && i < experts.size(); ++i) weights.data[i] *= scales->data()[experts[i]];
  return {.experts = mx::array(experts.data(), {tokens, spec.top_k}, mx::int32), .weights = std::move(weights.array)};
}

mx::array CpuKernels::run_experts(const mx::array& x, const Routing& routing, const ExpertMlps& mlps) const {
  const HostView input(x);
  const HostIds experts(routing.experts);
  const HostView weights(routing.weights);
  const int top_k = routing.experts.shape(1);
  const int tokens = routing.experts.shape(0);
  const Places places = sort_by_expert(experts.ids(), mlps.gate->num_experts());
  const int rows = tokens * top_k;

  const std::int64_t dim = mlps.gate->in_features();
  HostArray gathered = make_array({rows, static_cast<int>(dim)});
  ThreadTeam& team = context_->team;
  team.parallel_for(rows, rows_per_part(dim), [&](std::int64_t begin, std::int64_t end) {
    for (std::int64_t i = begin; i < end; ++i) {
      std::copy_n(input.data() + i / top_k * dim, dim, gathered.data + places.row[static_cast<std::size_t>(i)] * dim);
    }
  });

  HostArray gate = make_array({rows, mlps.gate->out_features()});
  HostArray up = make_array({rows, mlps.up->out_features()});
  std::vector<MatmulJob> jobs;
  add_jobs(*mlps.gate, places, gathered.data, gate.data, jobs);
  add_jobs(*mlps.up, places, gathered.data, up.data, jobs);
  multiply_jobs(*context_, jobs);
  add_biases(context_->loops, mlps.gate_bias, places, gate.data);
  add_biases(context_->loops, mlps.up_bias, places, up.data);
  const mx::array inner = gate_multiply(gate.array, up.array, mlps.activation);

  const std::int64_t out_dim = mlps.down->out_features();
  HostArray made = make_array({rows, static_cast<int>(out_dim)});
  jobs.clear();
  add_jobs(*mlps.down, places, inner.data<float>(), made.data, jobs);
  multiply_jobs(*context_, jobs);
  add_biases(context_->loops, mlps.down_bias, places, made.data);

  HostArray out = make_array({tokens, static_cast<int>(out_dim)});
  team.parallel_for(tokens, rows_per_part(out_dim * top_k), [&](std::int64_t begin, std::int64_t end) {
    for (std::int64_t i = begin * top_k; i < end * top_k; ++i) {
      const float* from = made.data + places.row[static_cast<std::size_t>(i)] * out_dim;
      float* to = out.data + i / top_k * out_dim;
      const auto add = i % top_k == 0 ? context_->loops.scale : context_->loops.add_scaled;
      add(from, weights.data()[i], out_dim, to);
    }
  });
  return std::move(out.array);
}

}  // namespace redpoll::kernels::cpu
