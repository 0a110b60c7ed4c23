// kv_config.json of a model folder: to how many bits the keys and values of each layer may be rounded, as mlx-optiq
// found out for the model.
#pragma once

#include <filesystem>
#include <vector>

#include "base/error.h"

namespace redpoll::checkpoint {

struct KvConfigEntry {
  int layer = 0;
  int bits = 0;
  int group_size = 0;
};

/// Layers that are not listed keep their keys and values. kNotFound if `path` is not a folder or has no such file,
/// kCorruptFile, with the file and the field, for what is no list of {"layer_idx", "bits", "group_size"}, or for a
/// layer that is listed twice. Whether the model has such layers is for the caller to see.
[[nodiscard]] Result<std::vector<KvConfigEntry>> read_kv_config(const std::filesystem::path& path);

}  // namespace redpoll::checkpoint
