// Finding the safetensors files of a model folder: the index and its shards, or a single file.
#include <algorithm>
#include <set>

#include "base/file.h"
#include "base/json.h"
#include "checkpoint/safetensors.h"

namespace redpoll::checkpoint {
namespace {

namespace fs = std::filesystem;

constexpr std::string_view kIndexName = "model.safetensors.index.json";

// A shard must be a plain name in the folder itself: an index must not make us open other people's files.
bool is_plain_name(std::string_view name) {
  return !name.empty() && name != "." && name != ".." && name.find_first_of("/\\") == std::string_view::npos &&
         name.find('\0') == std::string_view::npos;
}

struct Index {
  std::vector<std::pair<std::string, std::string>> tensor_to_shard;
  std::set<std::string> shards;
};

Result<Index> read_index(const fs::path& path) {
  constexpr std::size_t kMaxIndexBytes = 200'000'000;
  ASSIGN_OR_RETURN(const std::string text, read_file(path, kMaxIndexBytes));
  const auto corrupt = [&](const std::string& what) {
    return fail(ErrorCode::kCorruptFile, path.string() + ": " + what);
  };
  const auto parsed = parse_json(text);
  if (!parsed) return corrupt(parsed.error().message);
  const json::object* object = parsed->if_object();
  const json::value* map_value = object == nullptr ? nullptr : object->if_contains("weight_map");
  const json::object* map = map_value == nullptr ? nullptr : map_value->if_object();
  if (map == nullptr || map->empty()) return corrupt("expected an object 'weight_map' of tensor names to files");
  Index index;
  for (const auto& [key, value] : *map) {
    if (!value.is_string()) return corrupt("'weight_map' of '" + std::string(key) + "' is not a string");
    const std::string shard(value.get_string());
    if (!is_plain_name(shard)) {
      return corrupt("'weight_map' of '" + std::string(key) + "' points outside of the folder: '" + shard + "'");
    }
    index.tensor_to_shard.emplace_back(key, shard);
    index.shards.insert(shard);
  }
  return index;
}

Result<std::vector<fs::path>> find_single_file(const fs::path& folder) {
  std::error_code error;
  if (fs::exists(folder / "model.safetensors", error)) return std::vector{folder / "model.safetensors"};
  std::vector<fs::path> found;
  for (const fs::directory_entry& entry : fs::directory_iterator(folder, error)) {
    if (entry.path().extension() == ".safetensors") found.push_back(entry.path());
  }
  if (found.size() == 1) return found;
  if (found.empty()) {
    return fail(ErrorCode::kNotFound,
                folder.string() + " holds no weights: expected model.safetensors or " + std::string(kIndexName));
  }
  return fail(ErrorCode::kNotFound, folder.string() + " holds " + std::to_string(found.size()) +
                                        " .safetensors files but no " + std::string(kIndexName) +
                                        " that says which belong to the model");
}

}  // namespace

Result<SafetensorsFolder> open_safetensors_folder(const fs::path& folder) {
  std::vector<fs::path> paths;
  Index index;
  std::error_code error;
  if (fs::exists(folder / kIndexName, error)) {
    ASSIGN_OR_RETURN(index, read_index(folder / kIndexName));
    for (const std::string& shard : index.shards) {
      if (!fs::exists(folder / shard, error)) {
        return fail(ErrorCode::kNotFound, folder.string() + " is incomplete: " + std::string(kIndexName) + " lists " +
                                              shard + ", which is missing");
      }
      paths.push_back(folder / shard);
    }
  } else {
    ASSIGN_OR_RETURN(paths, find_single_file(folder));
  }

  SafetensorsFolder result;
  for (const fs::path& path : paths) {
    ASSIGN_OR_RETURN(std::shared_ptr<const MappedFile> file, MappedFile::open(path));
    RETURN_IF_ERROR(read_safetensors(file->bytes(), file, path.string(), result.parameters));
    result.files.push_back(std::move(file));
  }
  for (const auto& [tensor, shard] : index.tensor_to_shard) {
    if (!result.parameters.contains(tensor)) {
      return fail(ErrorCode::kCorruptFile, (folder / shard).string() + " does not hold the tensor '" + tensor +
                                               "' that " + std::string(kIndexName) + " places there");
    }
  }
  return result;
}

}  // namespace redpoll::checkpoint
