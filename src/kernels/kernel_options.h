// KernelOptions: how a kernel set computes, chosen once when an engine starts. Free of MLX, so that every layer may
// name it.
#pragma once

#include <memory>
#include <optional>
#include <string_view>

#include "base/error.h"
#include "kernels/kv_type.h"

namespace redpoll::kernels {

class KernelProfile;

/// What activations are rounded to before they are multiplied with weights of 4 or 8 bits on a CPU. Other weights see
/// float32 either way. Products of rounded activations are summed exactly over a group: the result is the same on every
/// processor. `kInt16`: the activations of a group of weights are off by at most 1/65,534 of the largest of them, with
/// `kInt8` those of every 32 by 1/254.
enum class Activations { kFloat32, kInt16, kInt8 };

/// Activations that share a scale when they are rounded to int8.
inline constexpr int kInt8Group = 32;

/// What such weights meet where `activations` were asked for.
[[nodiscard]] constexpr Activations activations_met(Activations activations, int bits, int group_size) {
  if (bits != 4 && bits != 8) return Activations::kFloat32;
  if (activations == Activations::kInt8 && group_size % kInt8Group != 0) return Activations::kFloat32;
  return activations;
}

/// "float32", "int16" or "int8"; "f16" or "f32"; anything else is an Error that lists them.
[[nodiscard]] Result<Activations> parse_activations(std::string_view name);
[[nodiscard]] std::string_view activations_name(Activations activations);
[[nodiscard]] Result<KvType> parse_kv_type(std::string_view name);
/// "off", "8", "4" or "config".
[[nodiscard]] Result<KvQuantization> parse_kv_quantization(std::string_view name);
[[nodiscard]] std::string_view kv_quantization_name(KvQuantization quantization);

/// Tokens of a prompt that mlx-lm computes at a time.
inline constexpr int kExactPromptChunk = 2048;

struct KernelOptions {
  int num_threads = 0;     // for kernels on a CPU; 0: one per physical core that this process may use
  bool reference = false;  // stock MLX ops even where faster kernels exist
  bool exact = false;      // those, in mlx-lm's order and types: bit for bit what it computes (see ReferenceKernels)
  std::optional<Activations> activations = std::nullopt;  // unset: int16 where the CPU has vectors for it, else float32
  KvType kv_type = KvType::kF16;                          // of kernels on a CPU
  KvQuantization kv_quantization = KvQuantization::kOff;  // instead of that
  std::shared_ptr<KernelProfile> profile = nullptr;  // set: every operation is measured, which takes some time itself
};

/// An Error for what the exact tier would not heed: other activations.
[[nodiscard]] Status check_exact(const KernelOptions& options);

/// An Error for what the kernels of the device that computes would ignore, REDPOLL_CPU included, or were never run
/// with.
[[nodiscard]] Status check_options(const KernelOptions& options, bool on_cpu);

}  // namespace redpoll::kernels
