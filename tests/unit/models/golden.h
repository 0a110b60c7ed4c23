// Golden checkpoints: tiny models of every family with what mlx-lm computes from them, and a model with a cache of its
// own to run them.
#pragma once

#include <gtest/gtest.h>
#include <mlx/ops.h>
#include <mlx/transforms.h>

#include <cstring>
#include <filesystem>
#include <memory>
#include <optional>
#include <stdexcept>
#include <string>
#include <vector>

#include "base/file.h"
#include "checkpoint/checkpoint.h"
#include "checkpoint/safetensors.h"
#include "models/registry.h"
#include "nn/kv_packing.h"
#include "unit/models/batches.h"

namespace redpoll::test {

namespace fs = std::filesystem;
namespace mx = mlx::core;

inline const fs::path kGoldens = fs::path(REDPOLL_TEST_DATA) / "golden" / "models";

struct Golden {
  checkpoint::Checkpoint checkpoint;
  std::vector<TokenId> tokens;
  std::vector<float> logits;  // (tokens, vocab)
};

template <typename T>
std::vector<T> values_of(const checkpoint::Tensor& tensor) {
  std::vector<T> values(tensor.bytes.size() / sizeof(T));
  std::memcpy(values.data(), tensor.bytes.data(), tensor.bytes.size());
  return values;
}

inline checkpoint::ParameterMap read_tensors(const fs::path& path) {
  const auto file = MappedFile::open(path);
  EXPECT_TRUE(file) << file.error().message;
  checkpoint::ParameterMap tensors;
  const Status read = checkpoint::read_safetensors((*file)->bytes(), *file, path.string(), tensors);
  EXPECT_TRUE(read) << read.error().message;
  return tensors;
}

inline Golden load_golden(const std::string& name) {
  auto opened = checkpoint::open_checkpoint(kGoldens / name);
  EXPECT_TRUE(opened) << opened.error().message;
  checkpoint::ParameterMap expected = read_tensors(kGoldens / name / "expected.safetensors");
  return {std::move(*opened), values_of<TokenId>(*expected.read("tokens")), values_of<float>(*expected.read("logits"))};
}

/// A model with a cache of its own; `run` gives the logits of every token of the batch.
class Runner {
 public:
  Runner(const checkpoint::Checkpoint& checkpoint, const kernels::KernelOptions& options)
      : kernels_(kernels::make_kernels(options)) {
    auto made = models::make_model(checkpoint, *kernels_);
    if (!made) throw std::runtime_error(made.error().message);  // fails the test
    model_ = std::move(*made);
    std::vector<cache::LayerCache> layers = model_->info().layers;
    const auto packings = nn::kv_packings(options, layers, checkpoint);
    if (!packings) throw std::runtime_error(packings.error().message);
    for (std::size_t i = 0; i < layers.size(); ++i) layers[i].packing = (*packings)[i];
    cache_.emplace(make_cache(*kernels_, layers, 64));
  }

  std::vector<float> run(const kernels::RaggedBatch& batch) {
    nn::ForwardContext context{*kernels_, batch, cache_->layers(), cache_->states()};
    mx::array logits = mx::contiguous(model_->forward(context));
    mx::eval(logits);
    return {logits.data<float>(), logits.data<float>() + logits.size()};
  }

  /// What the model says of the batch's tokens.
  std::vector<bool> finite_tokens(kernels::RaggedBatch batch) {
    batch.has_unseen_tokens = true;
    nn::ForwardContext context{*kernels_, batch, cache_->layers(), cache_->states()};
    mx::eval(model_->forward(context));
    mx::array finite = context.finite_tokens.value();
    finite.eval();
    return std::vector<bool>(finite.data<bool>(), finite.data<bool>() + finite.size());
  }

 private:
  std::unique_ptr<kernels::Kernels> kernels_;
  std::unique_ptr<models::Model> model_;
  std::optional<cache::KvCache> cache_;
};

inline std::vector<float> run_in_chunks(Runner& runner, FedSequence sequence, int chunk) {
  std::vector<float> logits;
  while (sequence.num_computed < static_cast<int>(sequence.tokens.size())) {
    kernels::RaggedBatch batch;
    const int left = static_cast<int>(sequence.tokens.size()) - sequence.num_computed;
    feed(batch, sequence, std::min(chunk, left));
    const auto part = runner.run(batch);
    logits.insert(logits.end(), part.begin(), part.end());
  }
  return logits;
}

inline mx::Dtype mlx_type(checkpoint::DType type) {
  using checkpoint::DType;
  switch (type) {
    case DType::kF16: return mx::float16;
    case DType::kBF16: return mx::bfloat16;
    case DType::kU32: return mx::uint32;
    case DType::kU8: return mx::uint8;
    default: return mx::float32;
  }
}

inline mx::array array_of(const checkpoint::Tensor& tensor) {
  const auto* bytes = reinterpret_cast<const std::uint8_t*>(tensor.bytes.data());
  const mx::array flat(bytes, {static_cast<int>(tensor.bytes.size())}, mx::uint8);
  return mx::reshape(mx::view(flat, mlx_type(tensor.dtype)), mx::Shape(tensor.shape.begin(), tensor.shape.end()));
}

/// Of one of these types.
inline checkpoint::Tensor tensor_of(const mx::array& array) {
  using checkpoint::DType;
  const auto kept = std::make_shared<mx::array>(mx::contiguous(array));
  kept->eval();
  DType type = DType::kF32;
  for (const DType other : {DType::kF16, DType::kBF16, DType::kU32, DType::kU8}) {
    if (mlx_type(other) == array.dtype()) type = other;
  }
  return checkpoint::make_tensor(type, {array.shape().begin(), array.shape().end()},
                                 {kept->data<std::byte>(), kept->nbytes()}, kept);
}

/// Floats of any type, widened.
inline std::vector<float> widened(const checkpoint::Tensor& tensor) {
  const mx::array floats = mx::astype(array_of(tensor), mx::float32);
  return values_of<float>(tensor_of(floats));
}

/// All logits of the golden's tokens, computed in float32 on a CPU.
inline std::vector<float> logits_of(const checkpoint::Checkpoint& checkpoint, const std::vector<TokenId>& tokens) {
  const kernels::KernelOptions options{
      .num_threads = 1, .activations = kernels::Activations::kFloat32, .kv_type = kernels::KvType::kF32};
  Runner runner(checkpoint, options);
  return run_in_chunks(runner, {tokens, 0, make_blocks(tokens.size(), 0, 1)}, 1000);
}

}  // namespace redpoll::test
