#include "nn/parameters.h"

#include <mlx/ops.h>
#include <mlx/transforms.h>

#include <algorithm>
#include <functional>
#include <limits>
#include <numeric>
#include <utility>

#include "nn/block_floats.h"

namespace redpoll::nn {
namespace {

using checkpoint::DType;

std::optional<kernels::WeightType> weight_type(DType dtype) {
  switch (dtype) {
    case DType::kF32: return kernels::WeightType::kF32;
    case DType::kF16: return kernels::WeightType::kF16;
    case DType::kBF16: return kernels::WeightType::kBF16;
    default: return std::nullopt;
  }
}

/// All elements in a row.
mx::array copy_of(const checkpoint::Tensor& tensor, mx::Dtype dtype) {
  mx::array copy({static_cast<int>(tensor.bytes.size() / dtype.size())}, dtype, nullptr, {});
  copy.set_data(mx::allocator::malloc(tensor.bytes.size()));
  std::copy(tensor.bytes.begin(), tensor.bytes.end(), copy.data<std::byte>());
  copy.set_status(mx::array::Status::available);
  return copy;
}

std::vector<std::int64_t> with_columns(const std::vector<int>& rows, std::int64_t columns) {
  std::vector<std::int64_t> shape(rows.begin(), rows.end());
  shape.push_back(columns);
  return shape;
}

// The first few of a list and how many there are, so that a checkpoint of another family does not print a thousand.
std::string joined(const std::vector<std::string>& items, std::string_view separator) {
  constexpr std::size_t kShown = 8;
  std::string text;
  for (std::size_t i = 0; i < std::min(items.size(), kShown); ++i) {
    if (i > 0) text += separator;
    text += items[i];
  }
  if (items.size() > kShown) text += std::string(separator) + "and " + std::to_string(items.size() - kShown) + " more";
  return text;
}

}  // namespace

Scope Parameters::root() {
  const Scope whole(*this, "");
  const Scope language = whole["language_model"];
  return language["model"]["embed_tokens"].has("weight") ? language : whole;
}

std::string Parameters::stored_name(const std::string& name) const {
  constexpr std::string_view kModel = "model.";
  constexpr std::string_view kLanguageModel = "model.language_model.";
  if (!name.starts_with(kModel) || !checkpoint_.parameters.contains("model.language_model.embed_tokens.weight")) {
    return name;
  }
  return std::string(kLanguageModel) + name.substr(kModel.size());
}

std::optional<checkpoint::Tensor> Parameters::read(const std::string& name) {
  const std::string stored = stored_name(name);
  std::optional<checkpoint::Tensor> tensor = checkpoint_.parameters.read(stored);
  if (tensor) read_.insert(stored);
  return tensor;
}

void Parameters::ignore(std::string_view prefix) {
  for (std::string& name : checkpoint_.parameters.names(prefix)) read_.insert(std::move(name));
}

Status Parameters::finish() const {
  if (!problems_.empty()) {
    return fail(ErrorCode::kCorruptFile, checkpoint_.path.string() + " does not hold the tensors that model_type '" +
                                             checkpoint_.config.model_type + "' needs: " + joined(problems_, "; "));
  }
  std::vector<std::string> unread;
  for (const std::string& name : checkpoint_.parameters.names()) {
    if (!read_.contains(name)) unread.push_back(name);
  }
  if (!unread.empty()) {
    return fail(ErrorCode::kCorruptFile, checkpoint_.path.string() + " holds tensors that model_type '" +
                                             checkpoint_.config.model_type +
                                             "' does not have: " + joined(unread, ", "));
  }
  return {};
}

std::string Scope::full(std::string_view name) const { return prefix_ + std::string(name); }

Scope Scope::operator[](std::string_view name) const { return {parameters_, full(name) + "."}; }

bool Scope::has(std::string_view name) const {
  return parameters_.checkpoint_.parameters.contains(parameters_.stored_name(full(name)));
}

void Scope::count_looked_up(std::size_t num_bytes, int num_rows) const {
  parameters_.unread_bytes_ += num_bytes - num_bytes / static_cast<std::size_t>(num_rows);
}

void Scope::count_experts(std::size_t num_bytes, int num_chosen, int num_experts) const {
  const std::size_t read = num_bytes / static_cast<std::size_t>(num_experts) * static_cast<std::size_t>(num_chosen);
  parameters_.unread_bytes_ += num_bytes - read;
  parameters_.expert_bytes_ += read;
}

void Scope::ignore() const { parameters_.ignore(parameters_.stored_name(prefix_)); }

std::optional<checkpoint::Tensor> Scope::expect(std::string_view name, const std::vector<std::int64_t>& shape) const {
  std::optional<checkpoint::Tensor> tensor = parameters_.read(full(name));
  if (!tensor) {
    parameters_.record(full(name) + " is missing");
    return std::nullopt;
  }
  if (tensor->shape != shape) {
    parameters_.record(full(name) + " has shape " + checkpoint::shape_text(tensor->shape) + ", expected " +
                       checkpoint::shape_text(shape));
    return std::nullopt;
  }
  return tensor;
}

mx::array Scope::floats(std::string_view name, const std::vector<std::int64_t>& shape) const {
  const mx::Shape sizes(shape.begin(), shape.end());
  const std::optional<checkpoint::Tensor> tensor = expect(name, shape);
  if (!tensor) return mx::zeros(sizes);
  const auto type = weight_type(tensor->dtype);
  if (!type) {
    parameters_.record(full(name) + " has type " + std::string(checkpoint::dtype_name(tensor->dtype)) +
                       ", expected F32, F16 or BF16");
    return mx::zeros(sizes);
  }
  return mx::reshape(copy_of(*tensor, mlx_type(*type)), sizes);
}

mx::array Scope::kept(mx::array stored) const {
  if (!parameters_.kernels_.keeps_types()) stored = mx::astype(stored, mx::float32);
  mx::eval(stored);
  parameters_.loaded_bytes_ += stored.nbytes();
  return stored;
}

mx::array Scope::vector(std::string_view name, int size, RowSlice slice) const {
  const mx::array stored = floats(name, {slice.of > 0 ? slice.of : size});
  return kept(slice.of > 0 ? mx::take(stored, row_indices(slice, size), 0) : stored);
}

mx::array Scope::table(std::string_view name, int rows, int columns) const {
  return kept(floats(name, {rows, columns}));
}

std::vector<std::int64_t> Scope::shape(std::string_view name) const {
  const auto tensor = parameters_.checkpoint_.parameters.read(parameters_.stored_name(full(name)));
  return tensor ? tensor->shape : std::vector<std::int64_t>{};
}

mx::array Scope::convolution(int channels, int size) const {
  const std::vector<std::int64_t> original{channels, 1, size};
  const mx::array stored =
      floats("weight", shape("weight") == original ? original : std::vector<std::int64_t>{channels, size, 1});
  return kept(mx::contiguous(mx::transpose(mx::reshape(stored, {channels, size}))));
}

std::shared_ptr<const kernels::Matrix> Scope::matrix(int out_features, int in_features, RowSlice slice) const {
  const auto all = read_matrix({slice.of > 0 ? slice.of : out_features}, in_features);
  if (!all) return nullptr;
  auto matrix = parameters_.kernels_.make_matrix(slice_of(*all, slice, out_features));
  parameters_.loaded_bytes_ += matrix->num_bytes();
  return matrix;
}

std::shared_ptr<const kernels::Experts> Scope::stacked_experts(int num_experts, int out_features,
                                                               int in_features) const {
  const auto all = read_matrix({num_experts, out_features}, in_features);
  if (!all) return nullptr;
  std::vector<kernels::MatrixWeights> weights;
  for (int i = 0; i < num_experts; ++i) weights.push_back(rows_of(*all, i * out_features, out_features));
  return kept_experts(std::move(weights));
}

std::shared_ptr<const kernels::Experts> Scope::kept_experts(std::vector<kernels::MatrixWeights> weights) const {
  auto experts = parameters_.kernels_.make_experts(std::move(weights));
  if (!experts) {
    parameters_.record(prefix_ + " has dense experts of a type that MLX does not multiply on a CPU (--exact wants to)");
    return nullptr;
  }
  parameters_.loaded_bytes_ += experts->num_bytes();
  return experts;
}

std::shared_ptr<const kernels::Experts> Scope::fused_experts(std::string_view name, int num_experts, RowSlice rows,
                                                             MatrixShape shape) const {
  const std::int64_t all_rows = std::int64_t{num_experts} * rows.of;
  if (all_rows > std::numeric_limits<int>::max()) {
    parameters_.record(full(name) + " would have " + std::to_string(all_rows) + " rows by the config");
    return nullptr;
  }
  if (rows.run > 0 && has(name)) {
    parameters_.record(full(name) + " is dense, whose layout in gpt-oss, inputs before outputs, is not supported");
    return nullptr;
  }
  kernels::MatrixWeights stored;
  stored.out_features = static_cast<int>(all_rows);
  stored.in_features = shape.in_features;
  const std::vector<int> sizes{num_experts, rows.of};
  const auto all =
      has(name) ? read_dense(name, sizes, std::move(stored)) : read_blocks(std::string(name), sizes, std::move(stored));
  if (!all) return nullptr;
  std::vector<kernels::MatrixWeights> weights;
  for (int i = 0; i < num_experts; ++i) {
    weights.push_back(slice_of(rows_of(*all, i * rows.of, rows.of), rows, shape.out_features));
  }
  return kept_experts(std::move(weights));
}

std::shared_ptr<const kernels::Experts> Scope::experts(std::string_view name, int num_experts, int out_features,
                                                       int in_features) const {
  std::vector<kernels::MatrixWeights> weights;
  for (int i = 0; i < num_experts; ++i) {
    const Scope expert = (*this)[i][name];
    auto one = expert.read_matrix({out_features}, in_features);
    if (!one) return nullptr;
    const kernels::MatrixWeights& first = weights.empty() ? *one : weights.front();
    if (one->bits != first.bits || one->group_size != first.group_size || one->type != first.type) {
      parameters_.record(expert.full("weight") + " is stored unlike those of the other experts");
      return nullptr;
    }
    weights.push_back(std::move(*one));
  }
  return kept_experts(std::move(weights));
}

/// "weight" of shape (rows..., in_features), seen as one matrix of all rows.
std::optional<kernels::MatrixWeights> Scope::read_matrix(const std::vector<int>& rows, int in_features) const {
  kernels::MatrixWeights weights;
  const std::int64_t num_rows = std::accumulate(rows.begin(), rows.end(), std::int64_t{1}, std::multiplies<>());
  if (num_rows <= 0 || num_rows > std::numeric_limits<int>::max() || in_features <= 0) {
    parameters_.record(full("weight") + " should have shape " +
                       checkpoint::shape_text(with_columns(rows, in_features)) + " by the config, which is none");
    return std::nullopt;
  }
  weights.out_features = static_cast<int>(num_rows);
  weights.in_features = in_features;
  if (!has("scales")) return read_dense("weight", rows, std::move(weights));
  const std::string module = prefix_.substr(0, prefix_.size() - 1);
  const auto spec = parameters_.checkpoint_.quantization.spec_for(module);
  if (!spec) {
    parameters_.record(module + " has scales, but the config does not say how it is quantized");
    return std::nullopt;
  }
  const bool divides =
      spec->group_size > 0 && in_features % spec->group_size == 0 && in_features * spec->bits % 32 == 0;
  if (!divides) {
    parameters_.record(module + " has " + std::to_string(in_features) + " inputs, which groups of " +
                       std::to_string(spec->group_size) + " do not divide");
    return std::nullopt;
  }
  const auto scales = expect("scales", with_columns(rows, in_features / spec->group_size));
  const auto weight = expect("weight", with_columns(rows, std::int64_t{in_features} * spec->bits / 32));
  if (!scales || !weight) return std::nullopt;
  if (weight->dtype != DType::kU32) {
    parameters_.record(full("weight") + " is quantized and must be U32");
    return std::nullopt;
  }
  weights.weight = weight->bytes;
  weights.scales = scales->bytes;
  weights.storage = both(weight->storage, scales->storage);
  weights.bits = spec->bits;
  weights.group_size = spec->group_size;
  if (spec->mode == "affine") return with_biases(rows, scales->dtype, std::move(weights));
  if (scales->dtype != DType::kU8) {
    parameters_.record(full("scales") + " is of '" + spec->mode + "' and must be U8");
    return std::nullopt;
  }
  return small_floats(spec->mode, std::move(weights));
}

kernels::MatrixWeights Scope::small_floats(std::string_view mode, kernels::MatrixWeights weights) const {
  weights.format = weight_format(mode);
  weights.type = kernels::WeightType::kBF16;
  if (parameters_.kernels_.takes_small_floats()) return weights;
  return nn::widened({.mode = mode,
                      .rows = weights.out_features,
                      .columns = weights.in_features,
                      .weight = weights.weight,
                      .scales = weights.scales});
}

/// Tensors `name`_blocks, whose last axes are the blocks of a row and 16 bytes each, and `name`_scales.
std::optional<kernels::MatrixWeights> Scope::read_blocks(const std::string& name, const std::vector<int>& rows,
                                                         kernels::MatrixWeights weights) const {
  constexpr std::string_view kMode = "mxfp4";
  weights.bits = block_bits(kMode);
  weights.group_size = block_size(kMode);
  if (weights.in_features % weights.group_size != 0) {
    parameters_.record(full(name) + " has " + std::to_string(weights.in_features) + " inputs, which blocks of " +
                       std::to_string(weights.group_size) + " do not divide");
    return std::nullopt;
  }
  std::vector<std::int64_t> sizes = with_columns(rows, weights.in_features / weights.group_size);
  const auto scales = expect(name + "_scales", sizes);
  sizes.push_back(weights.group_size * weights.bits / 8);
  const auto blocks = expect(name + "_blocks", sizes);
  if (!scales || !blocks) return std::nullopt;
  if (scales->dtype != DType::kU8 || blocks->dtype != DType::kU8) {
    parameters_.record(full(name) + "_blocks and _scales must be U8");
    return std::nullopt;
  }
  weights.weight = blocks->bytes;
  weights.scales = scales->bytes;
  weights.storage = both(blocks->storage, scales->storage);
  return small_floats(kMode, std::move(weights));
}

std::optional<kernels::MatrixWeights> Scope::read_dense(std::string_view name, const std::vector<int>& rows,
                                                        kernels::MatrixWeights weights) const {
  const std::optional<checkpoint::Tensor> weight = expect(name, with_columns(rows, weights.in_features));
  if (!weight) return std::nullopt;
  const auto type = weight_type(weight->dtype);
  if (!type) {
    parameters_.record(full(name) + " has type " + std::string(checkpoint::dtype_name(weight->dtype)) +
                       ", expected F32, F16 or BF16");
    return std::nullopt;
  }
  weights.type = *type;
  weights.weight = weight->bytes;
  weights.storage = weight->storage;
  return weights;
}

std::optional<kernels::MatrixWeights> Scope::with_biases(const std::vector<int>& rows, checkpoint::DType scales,
                                                         kernels::MatrixWeights weights) const {
  const auto biases = expect("biases", with_columns(rows, weights.in_features / weights.group_size));
  if (!biases) return std::nullopt;
  const auto type = weight_type(scales);
  if (!type || biases->dtype != scales) {
    parameters_.record(prefix_.substr(0, prefix_.size() - 1) +
                       " needs scales and biases of one type, F32, F16 or BF16");
    return std::nullopt;
  }
  weights.type = *type;
  weights.biases = biases->bytes;
  weights.storage = both(weights.storage, biases->storage);
  return weights;
}

}  // namespace redpoll::nn
