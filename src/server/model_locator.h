// Finds the files that a MODEL argument means. Only looks at what is on this machine and never downloads; a name that
// matches nothing, or several models, is an error that lists what it may have meant.
#pragma once

#include <filesystem>
#include <string>
#include <string_view>

#include "base/error.h"

namespace redpoll::server {

/// Where models may be.
struct ModelPlaces {
  std::string default_model;             // what no argument means: REDPOLL_MODEL; empty: the starter model
  std::filesystem::path hub_cache;       // the Hugging Face cache ("models--org--name" folders)
  std::filesystem::path starter_folder;  // holds the starter model's .gguf file somewhere below

  /// From REDPOLL_MODEL, HF_HUB_CACHE, HF_HOME, XDG_CACHE_HOME and HOME, and the place this program was built with.
  [[nodiscard]] static ModelPlaces from_environment();
};

struct ModelLocation {
  std::filesystem::path path;  // a folder with config.json, or a .gguf file
  std::string name;            // "org/name" for a cached repository, else the folder's name or the file's stem
};

/// `model` is a folder with config.json (or with a single .gguf file), a .gguf file, a repository id in the cache, or
/// a part of exactly one repository id, letter case aside; empty means the default. Fails with kModelNotFound.
[[nodiscard]] Result<ModelLocation> locate_model(std::string_view model, const ModelPlaces& places);

}  // namespace redpoll::server
