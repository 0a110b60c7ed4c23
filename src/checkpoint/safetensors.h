// Reading of safetensors: 8 bytes of header length, a JSON header of names, types, shapes and byte ranges, then the
// bytes. Tensors are views of the mapped file. A file that contradicts itself in any way is refused as a whole.
#pragma once

#include <filesystem>
#include <memory>
#include <span>
#include <string>
#include <vector>

#include "base/error.h"
#include "base/file.h"
#include "checkpoint/tensor.h"

namespace redpoll::checkpoint {

/// Parses one file's bytes and adds its tensors to `parameters`. `storage` keeps `bytes` alive; `name` is for messages.
/// kCorruptFile for: a header beyond the file or over 100 MB, malformed JSON, unknown types, shapes that do not match
/// their byte range, ranges that overlap, leave gaps or do not fill the file, and a name that is there twice.
[[nodiscard]] Status read_safetensors(std::span<const std::byte> bytes, const std::shared_ptr<const void>& storage,
                                      const std::string& name, ParameterMap& parameters);

struct SafetensorsFolder {
  ParameterMap parameters;
  std::vector<std::shared_ptr<const MappedFile>> files;  // in the order of their names
};

/// Maps the weights of a model folder: the shards that model.safetensors.index.json lists, else model.safetensors,
/// else the only other .safetensors file. kNotFound names a shard that is missing; kCorruptFile an index that points
/// outside of the folder, or at a shard that does not hold the tensor. Tensors that a shard holds and the index does
/// not list are loaded like the others: whoever builds a model decides about names.
[[nodiscard]] Result<SafetensorsFolder> open_safetensors_folder(const std::filesystem::path& folder);

}  // namespace redpoll::checkpoint
