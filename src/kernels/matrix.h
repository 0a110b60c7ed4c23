// Matrix: a weight matrix in whatever form a kernel set multiplies fastest. The one way in is MatrixWeights, a view of
// the checkpoint's bytes; what becomes of them (copied to a device, repacked into panels) is the kernel set's secret.
#pragma once

#include <mlx/array.h>

#include <cstddef>
#include <memory>
#include <span>
#include <string>

namespace redpoll::kernels {

namespace mx = mlx::core;

/// Element type of dense weights, scales and biases.
enum class WeightType { kF32, kF16, kBF16 };

/// How weights with scales are to be read: affine integers, or small floats whose blocks have a scale of 8 bits and no
/// bias, named as MLX does.
enum class WeightFormat { kAffine, kMxfp4, kMxfp8, kNvfp4 };

/// A (out_features, in_features) matrix as a checkpoint stores it, row-major. Dense when bits is 0: `weight` then holds
/// elements of `type`. Otherwise MLX affine quantization: `weight` holds (out, in * bits / 32) little-endian 32-bit
/// words, lowest bits first, and each group of `group_size` consecutive inputs has a scale and a bias of `type`, so
/// that w = scale * q + bias; `scales` and `biases` are (out, in / group_size). A group fills whole words. MLX has
/// groups of 32, 64 and 128; those of 16 come from GGUF.
struct MatrixWeights {
  int out_features = 0;
  int in_features = 0;
  WeightType type = WeightType::kF32;
  int bits = 0;
  int group_size = 0;
  WeightFormat format = WeightFormat::kAffine;  // of small floats only for kernels that take them
  std::span<const std::byte> weight;
  std::span<const std::byte> scales;
  std::span<const std::byte> biases;
  std::shared_ptr<const void> storage;  // keeps the bytes above alive; may be dropped once repacked
};

/// Immutable after construction; used by the engine thread only.
class Matrix {
 public:
  virtual ~Matrix() = default;

  /// x times the transpose: (tokens, in_features) float -> (tokens, out_features). A row of the result depends on the
  /// same row of x alone, to the bit, whatever the number of rows.
  [[nodiscard]] virtual mx::array multiply(const mx::array& x) const = 0;

  /// Rows by index, dequantized: ids (tokens) int32, each in [0, out_features) -> (tokens, in_features).
  [[nodiscard]] virtual mx::array gather_rows(const mx::array& ids) const = 0;

  [[nodiscard]] virtual std::size_t num_bytes() const = 0;
  [[nodiscard]] int out_features() const { return out_features_; }
  [[nodiscard]] int in_features() const { return in_features_; }

 protected:
  Matrix(int out_features, int in_features) : out_features_(out_features), in_features_(in_features) {}

 private:
  int out_features_;
  int in_features_;
};

/// Matrices of one shape, of which each token is multiplied with a few: see Kernels::run_experts. Immutable.
class Experts {
 public:
  virtual ~Experts() = default;

  [[nodiscard]] virtual std::size_t num_bytes() const = 0;
  [[nodiscard]] int num_experts() const { return num_experts_; }
  [[nodiscard]] int out_features() const { return out_features_; }
  [[nodiscard]] int in_features() const { return in_features_; }
  [[nodiscard]] int bits() const { return bits_; }
  [[nodiscard]] int group_size() const { return group_size_; }

 protected:
  explicit Experts(std::span<const MatrixWeights> weights)
      : num_experts_(static_cast<int>(weights.size())),
        out_features_(weights.front().out_features),
        in_features_(weights.front().in_features),
        bits_(weights.front().bits),
        group_size_(weights.front().group_size) {}

 private:
  int num_experts_;
  int out_features_;
  int in_features_;
  int bits_;
  int group_size_;
};

}  // namespace redpoll::kernels
