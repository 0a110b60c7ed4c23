// GGUF tensors to parameters with Hugging Face names.
#include <algorithm>
#include <atomic>
#include <functional>
#include <latch>
#include <memory>
#include <mutex>
#include <optional>
#include <thread>

#include "base/thread_pool.h"
#include "checkpoint/gguf/model.h"
#include "checkpoint/gguf/names.h"
#include "checkpoint/gguf/repack.h"

namespace redpoll::checkpoint {
namespace {

// Where a tensor goes, checked when the file is opened.
struct Plan {
  GgufTensor tensor;
  HuggingFaceName name;
  RowOrder order;
};

bool is_config_tensor(std::string_view name) {
  return name == kRopeFactorsTensor || name == kShortFactorsTensor || name == kLongFactorsTensor;
}

/// Of all its matrices together.
std::int64_t num_rows(const GgufTensor& tensor) {
  std::int64_t rows = 1;
  for (std::size_t axis = 0; axis + 1 < tensor.shape.size(); ++axis) rows *= tensor.shape[axis];
  return rows;
}

Result<Plan> make_plan(const GgufFile& file, const GgufTensor& tensor, const GgufArchitecture& architecture,
                       const Config& config) {
  auto name = hugging_face_name(tensor.name, architecture);
  const auto unsupported = [&](const std::string& what) {
    return fail(ErrorCode::kUnsupported, file.name() + ": tensor '" + tensor.name + "' " + what);
  };
  if (!name) return unsupported("is not known for the architecture '" + std::string(architecture.name) + "'");
  if (!gguf_block(tensor.type)) {
    return unsupported("has the type " + gguf_type_name(tensor.type) +
                       ", which is not supported; known are F32, F16, "
                       "BF16, Q4_0, Q4_1, Q5_0, Q5_1, Q8_0, Q4_K, Q5_K, Q6_K and MXFP4");
  }
  if (affine_shape(tensor.type).bits > 0 && (tensor.shape.size() < 2 || name->suffix != "weight")) {
    return unsupported("has the quantized type " + gguf_type_name(tensor.type) + " but is not a matrix");
  }
  const std::int64_t rows = tensor.shape.size() == 1 ? tensor.shape[0] : num_rows(tensor);
  Plan plan{tensor, std::move(*name), {.rows = rows}};
  if (architecture.has_permuted_heads && plan.name.heads != GgufHeads::kNone) {
    plan.order.heads = plan.name.heads == GgufHeads::kQuery ? config.num_attention_heads : config.num_key_value_heads;
    if (plan.order.heads == 0 || plan.order.rows % (2 * plan.order.heads) != 0) {
      return fail(ErrorCode::kCorruptFile, file.name() + ": tensor '" + tensor.name + "' has " +
                                               std::to_string(plan.order.rows) + " rows, which " +
                                               std::to_string(plan.order.heads) + " heads of even size do not fill");
    }
  }
  return plan;
}

// Quantized tensors, converted when they are read: one at a time is in memory, the last, because its weight, scales and
// biases are read apart. Used from any thread.
class AffineReader {
 public:
  explicit AffineReader(std::shared_ptr<const void> storage) : storage_(std::move(storage)) {}

  Tensor read(const Plan& plan, Tensor AffineTensors::* part) {
    const std::scoped_lock lock(mutex_);
    if (last_ != &plan) {
      last_ = nullptr;
      tensors_ = {};  // before the next ones take memory
      tensors_ = repack_affine(plan.tensor, plan.order, [this](int count, const auto& work) { run_all(count, work); });
      last_ = &plan;
    }
    return tensors_.*part;
  }

 private:
  /// On this thread and, for tensors of many parts, on one for each other core.
  void run_all(int count, const std::function<void(int)>& work) {
    const int num_cores = static_cast<int>(std::max(1U, std::thread::hardware_concurrency()));
    const int num_helpers = std::min(num_cores, count) - 1;
    // Shared with the helpers, so that one whose turn comes late finds it.
    const auto next = std::make_shared<std::atomic<int>>(0);
    const auto done = std::make_shared<std::latch>(count);
    const auto run = [next, done, count, &work] {
      for (int i = (*next)++; i < count; i = (*next)++) {
        work(i);
        done->count_down();
      }
    };
    if (num_helpers > 0 && !helpers_) helpers_.emplace(num_cores - 1);
    for (int i = 0; i < num_helpers; ++i) helpers_->post(run);
    run();
    done->wait();
  }

  const std::shared_ptr<const void> storage_;  // of what the plans view
  std::mutex mutex_;                           // guards what follows
  std::optional<ThreadPool> helpers_;
  const Plan* last_ = nullptr;
  AffineTensors tensors_;
};

void insert(ParameterMap& parameters, std::string name, std::function<Tensor()> make) {
  const bool is_new = parameters.insert(std::move(name), std::move(make));
  CHECK(is_new, "different tensor names have different parameter names");
}

}  // namespace

Result<ParameterMap> read_gguf_parameters(const GgufFile& file, const Config& config) {
  ASSIGN_OR_RETURN(const auto name, file.text("general.architecture"));
  const GgufArchitecture* architecture = find_gguf_architecture(name.value_or(""));
  CHECK(architecture != nullptr, "read_gguf_config accepts known architectures only");
  ParameterMap parameters;
  const auto reader = std::make_shared<AffineReader>(file.storage());
  for (const GgufTensor& tensor : file.tensors()) {
    if (is_config_tensor(tensor.name)) continue;
    ASSIGN_OR_RETURN(Plan made, make_plan(file, tensor, *architecture, config));
    const auto plan = std::make_shared<const Plan>(std::move(made));
    const std::string prefix = plan->name.module + ".";
    if (affine_shape(tensor.type).bits == 0) {
      insert(parameters, plan->name.full(),
             [plan, storage = file.storage()] { return repack_dense(plan->tensor, plan->order, storage); });
      continue;
    }
    const auto insert_part = [&](const char* suffix, Tensor AffineTensors::* part) {
      insert(parameters, prefix + suffix, [reader, plan, part] { return reader->read(*plan, part); });
    };
    insert_part("weight", &AffineTensors::weight);
    insert_part("scales", &AffineTensors::scales);
    insert_part("biases", &AffineTensors::biases);
  }
  return parameters;
}

}  // namespace redpoll::checkpoint
