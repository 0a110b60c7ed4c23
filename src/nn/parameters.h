// Parameters: a checkpoint's tensors by name while a model is being built. Blocks ask a Scope, a prefix view, for what
// they need; so a key name stands in the code once, as a constructor argument, and constructors cannot fail: what is
// missing or has a wrong shape is recorded, and `finish` reports all of it at once, together with the tensors that
// nobody asked for. A model whose `finish` failed must be thrown away unused.
#pragma once

#include <cstddef>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <unordered_set>
#include <vector>

#include "base/error.h"
#include "checkpoint/checkpoint.h"
#include "kernels/kernels.h"
#include "nn/row_slice.h"

namespace redpoll::nn {

namespace mx = mlx::core;

class Scope;

/// Bytes of weights that a token meets which is alone in its step.
struct BytesPerToken {
  std::size_t all = 0;
  std::size_t experts = 0;  // of these, those of the experts that a router has chosen
};

/// Lives on the engine thread for the time of a load; keeps references to both arguments.
class Parameters {
 public:
  Parameters(const checkpoint::Checkpoint& checkpoint, const kernels::Kernels& kernels)
      : checkpoint_(checkpoint), kernels_(kernels) {}

  /// The whole checkpoint, or the text part of one that keeps it under "language_model.".
  [[nodiscard]] Scope root();
  /// Leaves the tensors of the checkpoint whose names begin so unread.
  void ignore(std::string_view prefix);
  /// Fails with every recorded error, or with the tensors that were never read.
  [[nodiscard]] Status finish() const;
  /// Bytes that the model's matrices and vectors take once loaded.
  [[nodiscard]] std::size_t loaded_bytes() const { return loaded_bytes_; }
  /// Of these, what is read for one token.
  [[nodiscard]] BytesPerToken bytes_per_token() const {
    return {.all = loaded_bytes_ - unread_bytes_, .experts = expert_bytes_};
  }

 private:
  friend class Scope;
  /// As the checkpoint calls it: models of text and more have "model.language_model." for "model.".
  [[nodiscard]] std::string stored_name(const std::string& name) const;
  [[nodiscard]] std::optional<checkpoint::Tensor> read(const std::string& name);
  void record(std::string problem) { problems_.push_back(std::move(problem)); }

  const checkpoint::Checkpoint& checkpoint_;
  const kernels::Kernels& kernels_;
  std::unordered_set<std::string> read_;
  std::vector<std::string> problems_;
  std::size_t loaded_bytes_ = 0;
  std::size_t unread_bytes_ = 0;  // of these, what a token leaves aside
  std::size_t expert_bytes_ = 0;  // of the rest
};

struct MatrixShape {
  int out_features = 0;
  int in_features = 0;
};

/// A prefix of names: scope["self_attn"]["q_proj"] stands for "self_attn.q_proj.".
class Scope {
 public:
  Scope(Parameters& parameters, std::string prefix) : parameters_(parameters), prefix_(std::move(prefix)) {}

  [[nodiscard]] Scope operator[](std::string_view name) const;
  [[nodiscard]] Scope operator[](int index) const { return (*this)[std::to_string(index)]; }

  [[nodiscard]] bool has(std::string_view name) const;

  /// "weight", (out_features, in_features), dense, or quantized if "scales" stands beside it. nullptr when recorded.
  [[nodiscard]] std::shared_ptr<const kernels::Matrix> matrix(int out_features, int in_features,
                                                              RowSlice slice = {}) const;
  /// Matrices of one shape: stacked in this scope's "weight", (experts, out_features, in_features). nullptr when
  /// recorded.
  [[nodiscard]] std::shared_ptr<const kernels::Experts> stacked_experts(int num_experts, int out_features,
                                                                        int in_features) const;
  /// The same where each has a scope of its own, this one's [i][name].
  [[nodiscard]] std::shared_ptr<const kernels::Experts> experts(std::string_view name, int num_experts,
                                                                int out_features, int in_features) const;
  /// The same as some rows of each expert's matrix in the tensor `name`, (experts, rows.of, in_features), or in
  /// `name`_blocks and `name`_scales, small floats of mxfp4: as Hugging Face stores them.
  [[nodiscard]] std::shared_ptr<const kernels::Experts> fused_experts(std::string_view name, int num_experts,
                                                                      RowSlice rows, MatrixShape shape) const;
  /// "weight" of a convolution of each channel for itself, (channels, size, 1) as MLX writes it or (channels, 1, size):
  /// (size, channels), of a vector's type. Zeros when recorded.
  [[nodiscard]] mx::array convolution(int channels, int size) const;
  /// The sizes of a tensor; none if it is missing.
  [[nodiscard]] std::vector<std::int64_t> shape(std::string_view name) const;
  /// A (size) vector; float32, or as stored where the kernels keep types. Zeros when recorded.
  [[nodiscard]] mx::array vector(std::string_view name, int size, RowSlice slice = {}) const;
  /// A (rows, columns) table, likewise.
  [[nodiscard]] mx::array table(std::string_view name, int rows, int columns) const;
  /// Tensors under this prefix that a model leaves unread on purpose, such as precomputed rotary frequencies.
  void ignore() const;
  /// That a token reads one row of `num_bytes` that were loaded as `num_rows`, all of one size.
  void count_looked_up(std::size_t num_bytes, int num_rows) const;
  /// That a token reads `num_chosen` parts of `num_bytes` that were loaded for `num_experts`, all of one size.
  void count_experts(std::size_t num_bytes, int num_chosen, int num_experts) const;
  /// Of all scopes of these parameters so far.
  [[nodiscard]] std::size_t loaded_bytes() const { return parameters_.loaded_bytes(); }
  [[nodiscard]] BytesPerToken bytes_per_token() const { return parameters_.bytes_per_token(); }

 private:
  [[nodiscard]] std::string full(std::string_view name) const;
  /// Of a type that is not integers; zeros when recorded.
  [[nodiscard]] mx::array floats(std::string_view name, const std::vector<std::int64_t>& shape) const;
  /// Evaluated, of the type that the kernels want, and counted.
  [[nodiscard]] mx::array kept(mx::array stored) const;
  [[nodiscard]] std::optional<checkpoint::Tensor> expect(std::string_view name,
                                                         const std::vector<std::int64_t>& shape) const;
  [[nodiscard]] std::optional<kernels::MatrixWeights> read_matrix(const std::vector<int>& rows, int in_features) const;
  [[nodiscard]] std::optional<kernels::MatrixWeights> read_dense(std::string_view name, const std::vector<int>& rows,
                                                                 kernels::MatrixWeights weights) const;
  [[nodiscard]] std::optional<kernels::MatrixWeights> read_blocks(const std::string& name, const std::vector<int>& rows,
                                                                  kernels::MatrixWeights weights) const;
  /// Small floats as the kernels take them; bits, group size, weight and scales are set.
  [[nodiscard]] kernels::MatrixWeights small_floats(std::string_view mode, kernels::MatrixWeights weights) const;
  [[nodiscard]] std::shared_ptr<const kernels::Experts> kept_experts(std::vector<kernels::MatrixWeights> weights) const;
  [[nodiscard]] std::optional<kernels::MatrixWeights> with_biases(const std::vector<int>& rows,
                                                                  checkpoint::DType scales,
                                                                  kernels::MatrixWeights weights) const;

  Parameters& parameters_;
  std::string prefix_;  // "" or ends with "."
};

}  // namespace redpoll::nn
