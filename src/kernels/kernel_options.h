// KernelOptions: how a kernel set computes, chosen once when an engine starts. Free of MLX, so that every layer may
// name it.
#pragma once

#include <memory>
#include <string_view>

#include "base/error.h"
#include "kernels/kv_type.h"

namespace redpoll::kernels {

class KernelProfile;

/// What activations are rounded to before they are multiplied with weights of 4 or 8 bits, in groups of 32 or more, on
/// a CPU. `kInt8` gives each group of 32 a scale of its own and sums exactly: the result is the same on every
/// processor, off by at most half a step (1/254 of the group's largest value) per activation. Other weights see float32
/// either way.
enum class Activations { kFloat32, kInt8 };

/// Activations that share a scale when they are rounded to int8.
inline constexpr int kInt8Group = 32;

/// Whether kernels on a CPU round what meets such weights to int8.
[[nodiscard]] constexpr bool rounds_to_int8(Activations activations, int bits, int group_size) {
  return activations == Activations::kInt8 && (bits == 4 || bits == 8) && group_size % kInt8Group == 0;
}

/// "float32" or "int8", "f16" or "f32"; anything else is an Error that lists both.
[[nodiscard]] Result<Activations> parse_activations(std::string_view name);
[[nodiscard]] Result<KvType> parse_kv_type(std::string_view name);

struct KernelOptions {
  int num_threads = 0;     // for kernels on a CPU; 0: one per physical core that this process may use
  bool reference = false;  // stock MLX ops even where faster kernels exist
  Activations activations = Activations::kFloat32;
  KvType kv_type = KvType::kF16;                     // of kernels on a CPU
  std::shared_ptr<KernelProfile> profile = nullptr;  // set: every operation is measured, which takes some time itself
};

/// An Error for what the kernels of the device that computes would ignore.
[[nodiscard]] Status check_options(const KernelOptions& options, bool on_cpu);

}  // namespace redpoll::kernels
