// `redpoll cache`: what the files of a disk cache are, whether they are in order, and how to be rid of them. A server
// may be using them meanwhile.
#include <algorithm>
#include <ctime>
#include <iostream>
#include <memory>

#include "base/json.h"
#include "base/text.h"
#include "bench/table.h"
#include "cache/disk_directory.h"
#include "cache/disk_folder.h"
#include "cli/verbs.h"

namespace redpoll::cli {
namespace {

using cache::DiskFolder;
using cache::FileTime;

constexpr std::string_view kDirectoryFlag = "--ssd-cache";

struct CacheVerb {
  std::string directory;
  std::string fingerprint;  // empty: all
  bool as_json = false;
};

/// What is there of one model.
struct Holdings {
  std::string fingerprint;
  std::uint64_t files = 0;
  std::uint64_t bytes = 0;
  std::uint64_t tokens = 0;
  std::uint64_t damaged = 0;  // headers that cannot be read
  FileTime oldest_use = 0;
  FileTime newest_use = 0;
};

std::string megabytes(std::uint64_t bytes) {
  const std::uint64_t tenths = (bytes + 50'000) / 100'000;
  return std::to_string(tenths / 10) + "." + std::to_string(tenths % 10) + " MB";
}

std::time_t seconds(FileTime time) { return static_cast<std::time_t>(time / 1'000'000'000); }

/// "2026-01-31 12:34:56", in UTC.
std::string date_text(FileTime time) {
  const std::time_t whole = seconds(time);
  std::tm parts{};
  char text[32];
  if (::gmtime_r(&whole, &parts) == nullptr || std::strftime(text, sizeof text, "%F %T", &parts) == 0) return "-";
  return text;
}

/// The folders that are meant, opened; one that vanishes meanwhile is left out.
Result<std::vector<DiskFolder>> open_folders(const CacheVerb& verb) {
  ASSIGN_OR_RETURN(auto names, cache::list_folders(verb.directory));
  if (!verb.fingerprint.empty()) {
    std::erase_if(names, [&](const std::string& name) { return name != verb.fingerprint; });
    if (names.empty()) {
      return fail(ErrorCode::kNotFound, "there is nothing of " + verb.fingerprint + " in " + verb.directory);
    }
  }
  std::vector<DiskFolder> folders;
  for (const std::string& name : names) {
    auto folder = DiskFolder::open(verb.directory, name, cache::DiskAccess::kLooking);
    if (!folder && folder.error().code == ErrorCode::kNotFound) continue;
    if (!folder) return std::unexpected(std::move(folder).error());
    folders.push_back(*std::move(folder));
  }
  return folders;
}

// --- ls -----------------------------------------------------------------------------------------------------------

Result<Holdings> look_into(const DiskFolder& folder) {
  ASSIGN_OR_RETURN(const DiskFolder::Listing listing, folder.list());
  Holdings holdings{.fingerprint = folder.path().filename().string()};
  for (const cache::ListedFile& file : listing.files) {
    const auto header = folder.read_header(file.name);
    if (!header && header.error().code == ErrorCode::kNotFound) continue;
    holdings.oldest_use = holdings.files == 0 ? file.used_at : std::min(holdings.oldest_use, file.used_at);
    holdings.newest_use = std::max(holdings.newest_use, file.used_at);
    ++holdings.files;
    holdings.bytes += file.bytes;
    holdings.tokens += header ? header->head.tokens.size() : 0;
    holdings.damaged += header ? 0 : 1;
  }
  return holdings;
}

std::string as_table(const std::vector<Holdings>& list) {
  bench::Table table({"model", "files", "damaged", "bytes", "tokens", "oldest use (UTC)", "newest use (UTC)"});
  for (const Holdings& row : list) {
    const bool has_files = row.files > 0;
    table.add_row({row.fingerprint, std::to_string(row.files), std::to_string(row.damaged), std::to_string(row.bytes),
                   std::to_string(row.tokens), has_files ? date_text(row.oldest_use) : "-",
                   has_files ? date_text(row.newest_use) : "-"});
  }
  return table.text();
}

std::string as_json(const std::string& directory, const std::vector<Holdings>& list) {
  json::array models;
  for (const Holdings& row : list) {
    json::object model{
        {"fingerprint", row.fingerprint}, {"files", row.files},    {"damaged", row.damaged}, {"bytes", row.bytes},
        {"tokens", row.tokens},           {"oldest_use", nullptr}, {"newest_use", nullptr}};
    if (row.files > 0) {
      model["oldest_use"] = seconds(row.oldest_use);
      model["newest_use"] = seconds(row.newest_use);
    }
    models.push_back(std::move(model));
  }
  return dump_json(json::object{{"directory", directory}, {"models", std::move(models)}}) + '\n';
}

Status list_files(const CacheVerb& verb) {
  ASSIGN_OR_RETURN(const auto folders, open_folders(verb));
  std::vector<Holdings> list;
  for (const DiskFolder& folder : folders) {
    ASSIGN_OR_RETURN(list.emplace_back(), look_into(folder));
  }
  std::cout << (verb.as_json ? as_json(verb.directory, list) : as_table(list));
  return {};
}

// --- verify -------------------------------------------------------------------------------------------------------

/// An Error when any file is not in order, after all have been looked at.
Status verify_files(const CacheVerb& verb) {
  ASSIGN_OR_RETURN(const auto folders, open_folders(verb));
  int num_files = 0;
  json::array problems;
  cache::PayloadPool payloads;
  for (const DiskFolder& folder : folders) {
    ASSIGN_OR_RETURN(const DiskFolder::Listing listing, folder.list());
    for (const cache::ListedFile& file : listing.files) {
      auto content = folder.read(file.name, cache::PayloadCheck::kChecksum, payloads);
      if (!content && content.error().code == ErrorCode::kNotFound) continue;
      ++num_files;
      if (content) {
        payloads.give_back(std::move(content->payload));
        continue;
      }
      const std::string message = printable(content.error().message);
      problems.push_back(json::object{{"path", (folder.path() / file.name).string()}, {"message", message}});
      if (!verb.as_json) std::cout << message << '\n';
    }
  }
  const std::size_t num_bad = problems.size();
  if (verb.as_json) {
    std::cout << dump_json(json::object{{"directory", verb.directory},
                                        {"files", num_files},
                                        {"damaged", num_bad},
                                        {"problems", std::move(problems)}})
              << '\n';
  } else {
    std::cout << num_files << (num_files == 1 ? " file" : " files") << " checked, " << num_bad << " bad\n";
  }
  if (num_bad == 0) return {};
  return fail(ErrorCode::kCorruptFile, "not every file is in order; a server removes a bad one when it finds it");
}

// --- clear --------------------------------------------------------------------------------------------------------

Status clear_folder(const CacheVerb& verb, const DiskFolder& folder) {
  ASSIGN_OR_RETURN(const DiskFolder::Listing listing, folder.list());
  const std::string name = folder.path().filename().string();
  std::uint64_t bytes = 0;
  for (const cache::ListedFile& file : listing.files) {
    RETURN_IF_ERROR(folder.remove(file.name));
    bytes += file.bytes;
  }
  for (const cache::ListedFile& file : listing.unfinished) static_cast<void>(folder.remove_unfinished(file.name));
  DiskFolder::remove_if_empty(verb.directory, name);
  std::cout << "removed " << listing.files.size() << (listing.files.size() == 1 ? " file" : " files") << " of " << name
            << ", " << megabytes(bytes) << '\n';
  return {};
}

Status clear_files(const CacheVerb& verb) {
  ASSIGN_OR_RETURN(const auto folders, open_folders(verb));
  for (const DiskFolder& folder : folders) RETURN_IF_ERROR(clear_folder(verb, folder));
  if (folders.empty()) std::cout << "there is nothing to remove in " << printable(verb.directory) << '\n';
  return {};
}

using Action = Status (*)(const CacheVerb&);

/// A verb of two words about a directory.
FlagSet& add_cache_verb(CommandLine& command_line, const std::string& name, const std::string& summary,
                        const std::shared_ptr<CacheVerb>& verb, Action action) {
  FlagSet& flags = command_line.add_verb(name, summary, [name, verb, action] {
    if (verb->directory.empty()) return report_usage(name, name + " needs a DIR");
    const Status status = action(*verb);
    return status ? kExitFine : report(status.error());
  });
  flags.text(std::string(kDirectoryFlag), "DIR", verb->directory, "The directory of the disk cache");
  flags.take_argument("DIR", std::string(kDirectoryFlag));
  flags.add({.name = "--fingerprint",
             .value_name = "F",
             .description = "Only of this model, by its 16 digits as `cache ls` shows them",
             .set = [verb](std::string_view value) -> Status {
               if (!cache::is_folder_name(value)) {
                 return fail(ErrorCode::kInvalidArgument, "expected 16 digits from 0 to f, got " + shown_value(value));
               }
               verb->fingerprint = value;
               return {};
             }});
  return flags;
}

}  // namespace

void add_cache(CommandLine& command_line) {
  const auto verb = std::make_shared<CacheVerb>();
  add_cache_verb(command_line, "cache ls", "List what a disk cache holds, by model", verb, list_files)
      .toggle("--json", verb->as_json, "As one JSON object");
  add_cache_verb(command_line, "cache verify", "Check every file of a disk cache; removes none", verb, verify_files)
      .toggle("--json", verb->as_json, "As one JSON object");
  add_cache_verb(command_line, "cache clear", "Remove the files of a disk cache, and nothing else", verb, clear_files);
}

}  // namespace redpoll::cli
