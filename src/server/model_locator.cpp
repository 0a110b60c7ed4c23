#include "server/model_locator.h"

#include <algorithm>
#include <cstdlib>
#include <optional>
#include <system_error>
#include <vector>

#include "base/edit_distance.h"
#include "base/file.h"
#include "base/text.h"

#ifndef REDPOLL_STARTER_FOLDER
#define REDPOLL_STARTER_FOLDER ""
#endif

namespace redpoll::server {
namespace {

namespace fs = std::filesystem;

constexpr std::string_view kRepositoryPrefix = "models--";
constexpr std::size_t kMaxSuggestions = 8;

std::string environment(const char* name) {
  const char* value = std::getenv(name);
  return value == nullptr ? std::string() : std::string(value);
}

std::string lower(std::string_view text) {
  std::string out(text);
  for (char& c : out) {
    if (c >= 'A' && c <= 'Z') c = static_cast<char>(c - 'A' + 'a');
  }
  return out;
}

std::string join(const std::vector<std::string>& names) {
  std::string out;
  for (std::size_t i = 0; i < names.size() && i < kMaxSuggestions; ++i) out += (i == 0 ? "" : ", ") + names[i];
  if (names.size() > kMaxSuggestions) out += ", and " + std::to_string(names.size() - kMaxSuggestions) + " more";
  return out;
}

std::vector<fs::path> gguf_files(const fs::path& folder, bool recursive) {
  std::vector<fs::path> files;
  std::error_code error;
  for (auto entry = fs::recursive_directory_iterator(folder, error); !error && entry != fs::end(entry);
       entry.increment(error)) {
    if (!recursive) entry.disable_recursion_pending();
    std::error_code ignored;  // a cache entry may be a link to a blob that is gone
    const bool is_gguf = lower(entry->path().extension().string()) == ".gguf";
    if (is_gguf && entry->is_regular_file(ignored)) files.push_back(entry->path());
  }
  std::ranges::sort(files);
  return files;
}

std::string folder_name(const fs::path& folder) {
  std::error_code error;
  const fs::path absolute = fs::weakly_canonical(folder, error);
  return (error ? folder : absolute).filename().string();
}

Result<ModelLocation> from_folder(const fs::path& folder, std::string name) {
  std::error_code error;
  if (fs::exists(folder / "config.json", error)) return ModelLocation{folder, std::move(name)};
  const std::vector<fs::path> files = gguf_files(folder, false);
  if (files.size() == 1) return ModelLocation{files.front(), std::move(name)};
  if (files.empty()) {
    return fail(ErrorCode::kModelNotFound,
                "folder '" + folder.string() + "' is not a model: it has neither config.json nor a .gguf file",
                "model");
  }
  std::vector<std::string> names;
  for (const fs::path& file : files) names.push_back(file.filename().string());
  return fail(ErrorCode::kModelNotFound,
              "folder '" + folder.string() + "' has several .gguf files, name one of them: " + join(names), "model");
}

Result<ModelLocation> from_path(const fs::path& path) {
  std::error_code error;
  if (fs::is_directory(path, error)) return from_folder(path, folder_name(path));
  if (lower(path.extension().string()) != ".gguf") {
    return fail(ErrorCode::kModelNotFound,
                "'" + path.string() + "' is not a model: expected a folder with config.json or a .gguf file", "model");
  }
  return ModelLocation{path, path.stem().string()};
}

// "models--org--name" -> "org/name"; a repository without an organisation has no second separator.
std::optional<std::string> repository_id(const std::string& folder) {
  if (!folder.starts_with(kRepositoryPrefix)) return std::nullopt;
  std::string id = folder.substr(kRepositoryPrefix.size());
  if (const auto separator = id.find("--"); separator != std::string::npos) id.replace(separator, 2, "/");
  return id.empty() ? std::nullopt : std::optional(id);
}

std::vector<std::string> cached_repositories(const fs::path& hub_cache) {
  std::vector<std::string> ids;
  std::error_code error;
  for (auto entry = fs::directory_iterator(hub_cache, error); !error && entry != fs::end(entry);
       entry.increment(error)) {
    if (auto id = repository_id(entry->path().filename().string())) ids.push_back(*std::move(id));
  }
  std::ranges::sort(ids);
  return ids;
}

fs::path repository_folder(const fs::path& hub_cache, std::string_view id) {
  std::string name(id);
  if (const auto slash = name.find('/'); slash != std::string::npos) name.replace(slash, 1, "--");
  return hub_cache / (std::string(kRepositoryPrefix) + name);
}

// The snapshot that refs/main names; the only one there is when nothing does.
Result<ModelLocation> from_repository(const fs::path& hub_cache, const std::string& id) {
  const fs::path folder = repository_folder(hub_cache, id);
  if (auto commit = read_file(folder / "refs" / "main", 4096)) {
    while (!commit->empty() && (commit->back() == '\n' || commit->back() == '\r')) commit->pop_back();
    const fs::path snapshot = folder / "snapshots" / *commit;
    std::error_code error;
    if (!commit->empty() && fs::is_directory(snapshot, error)) return from_folder(snapshot, id);
  }
  std::vector<fs::path> snapshots;
  std::error_code error;
  for (auto entry = fs::directory_iterator(folder / "snapshots", error); !error && entry != fs::end(entry);
       entry.increment(error)) {
    snapshots.push_back(entry->path());
  }
  if (snapshots.size() == 1) return from_folder(snapshots.front(), id);
  return fail(ErrorCode::kModelNotFound,
              "'" + id +
                  "' is in the Hugging Face cache without a usable snapshot (expected refs/main to name one of "
                  "the " +
                  std::to_string(snapshots.size()) + " in snapshots/): download it again",
              "model");
}

// One is a part of the other, or few letters differ.
std::vector<std::string> near_matches(std::string_view wanted, const std::vector<std::string>& ids) {
  const std::string key = lower(wanted.substr(wanted.rfind('/') + 1));
  std::vector<std::string> near;
  for (const std::string& id : ids) {
    const std::string candidate = lower(std::string_view(id).substr(id.rfind('/') + 1));
    const bool part =
        !key.empty() && (candidate.find(key) != std::string::npos || key.find(candidate) != std::string::npos);
    if (part || edit_distance(key, candidate) <= std::max<std::size_t>(2, key.size() / 3)) near.push_back(id);
  }
  return near;
}

std::unexpected<Error> not_found(std::string_view model, const ModelPlaces& places,
                                 const std::vector<std::string>& ids) {
  std::string message =
      "no model '" + std::string(model) +
      "': expected a folder with config.json, a .gguf file, or a repository in the Hugging Face cache " +
      places.hub_cache.string();
  const std::vector<std::string> near = near_matches(model, ids);
  if (!near.empty()) {
    message += "; near matches: " + join(near);
  } else if (!ids.empty()) {
    message += "; it holds: " + join(ids);
  } else {
    message += " (which is empty)";
  }
  return fail(ErrorCode::kModelNotFound, std::move(message), "model");
}

Result<ModelLocation> starter_model(const ModelPlaces& places) {
  const std::vector<fs::path> files = gguf_files(places.starter_folder, true);
  if (!files.empty()) return ModelLocation{files.front(), files.front().stem().string()};
  return fail(ErrorCode::kModelNotFound,
              "no model given, REDPOLL_MODEL is not set and the starter model is not in '" +
                  places.starter_folder.string() + "': name a model, or run scripts/setup to fetch the starter model",
              "model");
}

// As locate_model, with names as they are on disk.
Result<ModelLocation> find_model(std::string_view model, const ModelPlaces& places) {
  if (model.empty()) model = places.default_model;
  if (model.empty()) return starter_model(places);

  std::error_code error;
  if (const fs::path path(model); fs::exists(path, error)) return from_path(path);

  const std::vector<std::string> ids = cached_repositories(places.hub_cache);
  if (std::ranges::find(ids, model) != ids.end()) return from_repository(places.hub_cache, std::string(model));

  std::vector<std::string> matches;
  for (const std::string& id : ids) {
    if (lower(id).find(lower(model)) != std::string::npos) matches.push_back(id);
  }
  if (matches.size() == 1) return from_repository(places.hub_cache, matches.front());
  if (matches.size() > 1) {
    return fail(ErrorCode::kModelNotFound,
                "'" + std::string(model) + "' is part of several cached models, name one of them: " + join(matches),
                "model");
  }
  return not_found(model, places, ids);
}

}  // namespace

ModelPlaces ModelPlaces::from_environment() {
  ModelPlaces places;
  places.default_model = environment("REDPOLL_MODEL");
  places.starter_folder = REDPOLL_STARTER_FOLDER;
  if (const std::string hub = environment("HF_HUB_CACHE"); !hub.empty()) {
    places.hub_cache = hub;
  } else if (const std::string home = environment("HF_HOME"); !home.empty()) {
    places.hub_cache = fs::path(home) / "hub";
  } else if (const std::string cache = environment("XDG_CACHE_HOME"); !cache.empty()) {
    places.hub_cache = fs::path(cache) / "huggingface" / "hub";
  } else {
    places.hub_cache = fs::path(environment("HOME")) / ".cache" / "huggingface" / "hub";
  }
  return places;
}

Result<ModelLocation> locate_model(std::string_view model, const ModelPlaces& places) {
  ASSIGN_OR_RETURN(ModelLocation location, find_model(model, places));
  location.name = printable(location.name);  // a file may be called anything
  return location;
}

}  // namespace redpoll::server
