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

/// "float32" or "int8"; anything else is an Error that lists both.
[[nodiscard]] Result<Activations> parse_activations(std::string_view name);

struct KernelOptions {
  int num_threads = 0;     // for kernels on a CPU; 0: one per physical core that this process may use
  bool reference = false;  // stock MLX ops even where faster kernels exist
  Activations activations = Activations::kFloat32;
  KvType kv_type = KvType::kF16;                     // of kernels on a CPU
  std::shared_ptr<KernelProfile> profile = nullptr;  // set: every operation is measured, which takes some time itself
};

}  // namespace redpoll::kernels
