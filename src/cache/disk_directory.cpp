#include "cache/disk_directory.h"

#include <fcntl.h>
#include <sys/stat.h>
#include <sys/statvfs.h>
#include <unistd.h>

#include <cerrno>
#include <cstddef>
#include <system_error>
#include <utility>

#include "base/file.h"
#include "base/random_id.h"
#include "cache/disk_calls.h"
#include "cache/disk_format.h"

namespace redpoll::cache {
namespace {

/// Writes a file that is gone again, as soon as it is closed. Other processes that do so may be in other containers,
/// and have our number there.
Status try_to_write(const Descriptor& folder, const std::filesystem::path& directory) {
  const std::string name = ".redpoll-" + random_hex() + std::string(kTemporarySuffix);
  const Descriptor file(
      ::openat(folder.get(), name.c_str(), O_WRONLY | O_CREAT | O_EXCL | O_NOFOLLOW | O_CLOEXEC, kFileMode));
  if (!file.is_open()) return disk_error("write into", directory);
  ::unlinkat(folder.get(), name.c_str(), 0);
  const std::vector<std::byte> some(std::size_t{64} << 10U, std::byte{1});
  RETURN_IF_ERROR(write_all(file.get(), directory / name, some));
  return write_through(file.get()) == 0 ? Status() : disk_error("write", directory / name);
}

std::unexpected<Error> advised(Error error) {
  error.message += "; name a folder that this user can make or write into";
  return std::unexpected(std::move(error));
}

}  // namespace

Status check_private(const Descriptor& folder, const std::filesystem::path& path) {
  struct stat info{};
  if (::fstat(folder.get(), &info) != 0) return system_error("stat", path);
  const std::string expected = path.string() + ": expected a folder ";
  if (!is_trusted(info.st_uid)) {
    return fail(ErrorCode::kIo, expected + "of " + user(::geteuid()) + ", who runs this, got one of " +
                                    user(info.st_uid) + ", who could change what is in it; use another folder");
  }
  if ((info.st_mode & (S_IWGRP | S_IWOTH)) != 0) {
    return fail(ErrorCode::kIo, expected +
                                    "that only its owner can write into, got one that others can; use another "
                                    "folder, or, if you trust what is in it: chmod go-w '" +
                                    path.string() + "'");
  }
  return {};
}

Status make_directory(const std::filesystem::path& directory) {
  std::error_code error;
  if (const auto above = directory.parent_path(); !above.empty()) std::filesystem::create_directories(above, error);
  if (::mkdir(directory.c_str(), kFolderMode) == 0 || errno == EEXIST) return {};
  if (error) errno = error.value();
  return disk_error("make", directory);
}

Status check_could_be_made(const std::filesystem::path& directory) {
  std::error_code error;
  std::filesystem::path place = std::filesystem::absolute(directory, error);
  struct stat info{};
  while (::lstat(place.c_str(), &info) != 0) {
    const bool may_be_above = (errno == ENOENT || errno == ENOTDIR) && place.has_relative_path();
    if (!may_be_above) return advised(system_error("make", directory).error());
    place = place.parent_path();
  }
  if (::stat(place.c_str(), &info) != 0) return advised(system_error("make", directory).error());  // a link to nothing
  if (!S_ISDIR(info.st_mode)) {
    errno = ENOTDIR;
    return advised(system_error("make", directory).error());
  }
  if (::faccessat(AT_FDCWD, place.c_str(), W_OK | X_OK, AT_EACCESS) != 0) {
    return advised(system_error("write into", place).error());
  }
  struct statvfs system{};
  if (::statvfs(place.c_str(), &system) == 0 && system.f_blocks == 0) {  // such as /proc, where root may write
    return advised({ErrorCode::kIo, "cannot write into " + place.string() + ": it is on no disk", {}});
  }
  return {};
}

Result<DirectoryCheck> check_directory(const std::filesystem::path& directory) {
  const auto judged = [](Error error) -> Result<DirectoryCheck> {
    if (error.code == ErrorCode::kUnavailable) return DirectoryCheck{.warning = std::move(error.message)};
    return advised(std::move(error));
  };
  if (Status made = make_directory(directory); !made) return judged(std::move(made).error());
  auto folder = open_directory(directory);
  if (!folder) return judged(std::move(folder).error());
  RETURN_IF_ERROR(check_private(*folder, directory));
  if (Status written = try_to_write(*folder, directory); !written) return judged(std::move(written).error());
  return DirectoryCheck();
}

Result<std::vector<std::string>> list_folders(const std::filesystem::path& directory) {
  ASSIGN_OR_RETURN(const Descriptor descriptor, open_directory(directory));
  ASSIGN_OR_RETURN(auto names, list_names(descriptor.get(), directory));
  std::vector<std::string> folders;
  for (auto& [name, info] : names) {
    if (S_ISDIR(info.st_mode) && is_folder_name(name)) folders.push_back(std::move(name));
  }
  return folders;
}

}  // namespace redpoll::cache
