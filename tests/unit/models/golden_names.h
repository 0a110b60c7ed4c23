// Which golden checkpoints there are, and which of them stock MLX cannot run.
#pragma once

#include <mlx/device.h>

#include <algorithm>
#include <string>
#include <vector>

#include "unit/models/golden.h"

namespace redpoll::test {

inline std::vector<std::string> golden_names() {
  std::vector<std::string> names;
  for (const auto& entry : fs::directory_iterator(kGoldens)) {
    if (entry.is_directory() && fs::exists(entry.path() / "config.json")) names.push_back(entry.path().filename());
  }
  std::sort(names.begin(), names.end());
  return names;
}

/// Dense and not of float32, which MLX does not multiply on a CPU.
inline bool has_narrow_experts(const checkpoint::Checkpoint& checkpoint) {
  if (mx::default_device() != mx::Device::cpu) return false;
  return std::ranges::any_of(checkpoint.parameters.names(), [&](const std::string& name) {
    return name.contains("switch_") && name.ends_with("up_proj.weight") &&
           checkpoint.parameters.read(name)->dtype != checkpoint::DType::kU32;
  });
}

}  // namespace redpoll::test
