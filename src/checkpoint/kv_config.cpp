#include "checkpoint/kv_config.h"

#include <algorithm>
#include <limits>
#include <string>
#include <utility>

#include "base/file.h"
#include "checkpoint/tokenizer_files.h"

namespace redpoll::checkpoint {
namespace {

namespace fs = std::filesystem;

Result<int> required_number(JsonReader& reader, std::string_view name) {
  ASSIGN_OR_RETURN(const auto number, reader.optional_int(name, 0, std::numeric_limits<int>::max()));
  if (number) return static_cast<int>(*number);
  const std::string path = reader.path_of(name);
  return fail(ErrorCode::kCorruptFile, "'" + path + "' is missing", path);
}

Result<std::vector<KvConfigEntry>> parse_entries(std::string_view text) {
  ASSIGN_OR_RETURN(const json::value value, parse_json(text));
  if (!value.is_array()) {
    return fail(ErrorCode::kCorruptFile, "expected an array of objects, got " + std::string(json_kind_name(value)));
  }
  std::vector<KvConfigEntry> entries;
  for (const json::value& one : value.get_array()) {
    const std::string path = "[" + std::to_string(entries.size()) + "]";
    if (!one.is_object()) {
      return fail(ErrorCode::kCorruptFile,
                  "'" + path + "': expected an object, got " + std::string(json_kind_name(one)), path);
    }
    JsonReader reader(one.get_object(), path);
    KvConfigEntry entry;
    ASSIGN_OR_RETURN(entry.layer, required_number(reader, "layer_idx"));
    ASSIGN_OR_RETURN(entry.bits, required_number(reader, "bits"));
    ASSIGN_OR_RETURN(entry.group_size, required_number(reader, "group_size"));
    if (std::ranges::find(entries, entry.layer, &KvConfigEntry::layer) != entries.end()) {
      return fail(ErrorCode::kCorruptFile,
                  "'" + path + ".layer_idx': layer " + std::to_string(entry.layer) + " is listed twice",
                  path + ".layer_idx");
    }
    entries.push_back(entry);
  }
  return entries;
}

}  // namespace

Result<std::vector<KvConfigEntry>> read_kv_config(const fs::path& path) {
  if (!fs::is_directory(path)) {
    return fail(ErrorCode::kNotFound,
                "kv_config.json is a file of a model's folder, and " + path.string() + " is not a folder");
  }
  const fs::path file = path / "kv_config.json";
  if (!fs::exists(file)) {
    return fail(ErrorCode::kNotFound, file.string() +
                                          " is not there, which would say how many bits each layer's keys " +
                                          "and values take; write one, or use --kv-quant 8");
  }
  ASSIGN_OR_RETURN(const std::string text, read_file(file));
  auto entries = parse_entries(text);
  if (!entries) {
    Error error = std::move(entries).error();
    error.code = ErrorCode::kCorruptFile;
    return in_file(file, std::move(error));
  }
  return entries;
}

}  // namespace redpoll::checkpoint
