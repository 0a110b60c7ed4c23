#include "cache/disk_calls.h"

#include <dirent.h>
#include <fcntl.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <memory>

#include "base/file.h"

namespace redpoll::cache {

std::unexpected<Error> disk_error(std::string_view action, const std::filesystem::path& path) {
  const int code = errno;
  auto error = system_error(action, path);
  if (code == ENOSPC || code == EDQUOT || code == EFBIG) error.error().code = ErrorCode::kUnavailable;
  return error;
}

int write_through(int fd) {
#if defined(__APPLE__)
  return ::fsync(fd);
#else
  return ::fdatasync(fd);
#endif
}

Status read_exactly(int fd, const std::filesystem::path& path, std::uint64_t offset, std::span<std::byte> bytes) {
  while (!bytes.empty()) {
    const ssize_t got = ::pread(fd, bytes.data(), bytes.size(), static_cast<off_t>(offset));
    if (got < 0 && errno == EINTR) continue;
    if (got < 0) return system_error("read", path);
    if (got == 0) return fail(ErrorCode::kCorruptFile, path.string() + ": it became shorter while it was read");
    bytes = bytes.subspan(static_cast<std::size_t>(got));
    offset += static_cast<std::uint64_t>(got);
  }
  return {};
}

Status write_all(int fd, const std::filesystem::path& path, std::span<const std::byte> bytes) {
  while (!bytes.empty()) {
    const ssize_t written = ::write(fd, bytes.data(), bytes.size());
    if (written < 0 && errno == EINTR) continue;
    if (written < 0) return disk_error("write", path);
    bytes = bytes.subspan(static_cast<std::size_t>(written));
  }
  return {};
}

Result<std::vector<std::pair<std::string, struct stat>>> list_names(int folder, const std::filesystem::path& path) {
  // A description of its own, since the place where reading stands belongs to that.
  const int fd = ::openat(folder, ".", O_RDONLY | O_DIRECTORY | O_CLOEXEC);
  if (fd < 0) return system_error("open", path);
  const std::unique_ptr<DIR, int (*)(DIR*)> entries(::fdopendir(fd), [](DIR* dir) { return ::closedir(dir); });
  if (entries == nullptr) {
    ::close(fd);
    return system_error("list", path);
  }
  std::vector<std::pair<std::string, struct stat>> names;
  errno = 0;  // which alone tells an error from the end
  while (const dirent* entry = ::readdir(entries.get())) {
    const std::string name = entry->d_name;
    struct stat info{};
    if (name == "." || name == "..") continue;
    if (::fstatat(folder, name.c_str(), &info, AT_SYMLINK_NOFOLLOW) == 0) {
      names.emplace_back(name, info);
    } else if (errno != ENOENT) {  // else it is gone meanwhile
      return system_error("look at", path / name);
    }
    errno = 0;
  }
  if (errno != 0) return system_error("list", path);
  std::ranges::sort(names, {}, [](const auto& named) -> const std::string& { return named.first; });
  return names;
}

Result<Descriptor> open_directory(const std::filesystem::path& directory) {
  Descriptor descriptor(::open(directory.c_str(), O_RDONLY | O_DIRECTORY | O_CLOEXEC));
  if (!descriptor.is_open()) return system_error("open", directory);
  return descriptor;
}

bool is_trusted(uid_t owner) { return owner == ::geteuid() || owner == 0; }

std::string user(uid_t id) { return "user " + std::to_string(id); }

}  // namespace redpoll::cache
