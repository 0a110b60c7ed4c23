// GGUF tensors to parameters with Hugging Face names.
#include <algorithm>
#include <atomic>
#include <thread>

#include "base/thread_pool.h"
#include "checkpoint/gguf/model.h"
#include "checkpoint/gguf/names.h"
#include "checkpoint/gguf/repack.h"

namespace redpoll::checkpoint {
namespace {

// One tensor's conversion: planned and checked on the calling thread, done on any.
struct Job {
  const GgufTensor* tensor = nullptr;
  HuggingFaceName name;
  RowOrder order;
  std::vector<std::pair<std::string, Tensor>> results;
};

Result<Job> plan(const GgufFile& file, const GgufTensor& tensor, const GgufArchitecture& architecture,
                 const Config& config) {
  auto name = hugging_face_name(tensor.name);
  const auto unsupported = [&](const std::string& what) {
    return fail(ErrorCode::kUnsupported, file.name() + ": tensor '" + tensor.name + "' " + what);
  };
  if (!name) return unsupported("is not known for the architecture '" + std::string(architecture.name) + "'");
  if (!gguf_block(tensor.type)) {
    return unsupported("has the type " + gguf_type_name(tensor.type) +
                       ", which is not supported; known are F32, F16, "
                       "BF16, Q4_0, Q4_1, Q5_0, Q5_1, Q8_0, Q4_K, Q5_K and Q6_K");
  }
  if (affine_shape(tensor.type).bits > 0 && (tensor.shape.size() != 2 || name->suffix != "weight")) {
    return unsupported("has the quantized type " + gguf_type_name(tensor.type) + " but is not a matrix");
  }
  Job job{&tensor, std::move(*name), {.rows = tensor.shape[0]}, {}};
  if (architecture.has_permuted_heads && job.name.heads != HuggingFaceName::Heads::kNone) {
    job.order.heads =
        job.name.heads == HuggingFaceName::Heads::kQuery ? config.num_attention_heads : config.num_key_value_heads;
    if (job.order.heads == 0 || job.order.rows % (2 * job.order.heads) != 0) {
      return fail(ErrorCode::kCorruptFile, file.name() + ": tensor '" + tensor.name + "' has " +
                                               std::to_string(job.order.rows) + " rows, which " +
                                               std::to_string(job.order.heads) + " heads of even size do not fill");
    }
  }
  return job;
}

void run(Job& job, const std::shared_ptr<const void>& storage) {
  const std::string prefix = job.name.module + ".";
  if (affine_shape(job.tensor->type).bits == 0) {
    job.results.emplace_back(prefix + std::string(job.name.suffix), repack_dense(*job.tensor, job.order, storage));
    return;
  }
  AffineTensors affine = repack_affine(*job.tensor, job.order);
  job.results.emplace_back(prefix + "weight", std::move(affine.weight));
  job.results.emplace_back(prefix + "scales", std::move(affine.scales));
  job.results.emplace_back(prefix + "biases", std::move(affine.biases));
}

void run_all(std::vector<Job>& jobs, const GgufFile& file) {
  constexpr std::size_t kWorthThreads = 1 << 20;
  std::size_t total = 0;
  for (const Job& job : jobs) total += job.tensor->bytes.size();
  const unsigned num_threads = total < kWorthThreads ? 1 : std::max(1U, std::thread::hardware_concurrency());
  std::atomic<std::size_t> next = 0;
  const auto work = [&] {
    for (std::size_t i = next++; i < jobs.size(); i = next++) run(jobs[i], file.storage());
  };
  if (num_threads == 1) return work();
  ThreadPool pool(static_cast<int>(num_threads));  // its destructor waits
  for (unsigned i = 0; i < num_threads; ++i) pool.post(work);
}

}  // namespace

Result<ParameterMap> read_gguf_parameters(const GgufFile& file, const Config& config) {
  ASSIGN_OR_RETURN(const auto name, file.text("general.architecture"));
  const GgufArchitecture* architecture = find_gguf_architecture(name.value_or(""));
  CHECK(architecture != nullptr, "read_gguf_config accepts known architectures only");
  std::vector<Job> jobs;
  for (const GgufTensor& tensor : file.tensors()) {
    if (tensor.name == kRopeFactorsTensor) continue;
    ASSIGN_OR_RETURN(Job job, plan(file, tensor, *architecture, config));
    jobs.push_back(std::move(job));
  }
  // Large ones first, so that no core is left alone with the embedding at the end.
  std::ranges::sort(jobs, std::ranges::greater(), [](const Job& job) { return job.tensor->bytes.size(); });
  run_all(jobs, file);
  ParameterMap parameters;
  for (Job& job : jobs) {
    for (auto& [parameter, tensor] : job.results) {
      const bool is_new = parameters.insert(std::move(parameter), std::move(tensor));
      CHECK(is_new, "different tensor names have different parameter names");
    }
  }
  return parameters;
}

}  // namespace redpoll::checkpoint
