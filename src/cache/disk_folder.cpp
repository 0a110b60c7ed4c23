#include "cache/disk_folder.h"

#include <dirent.h>
#include <fcntl.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <chrono>
#include <memory>
#include <optional>
#include <utility>

#include "base/file.h"
#include "base/random_id.h"

namespace redpoll::cache {
namespace {

constexpr std::string_view kTemporarySuffix = ".tmp";
constexpr mode_t kFolderMode = 0700;
constexpr mode_t kFileMode = 0600;
constexpr std::int64_t kSecond = 1'000'000'000;  // nanoseconds

FileTime modified_at(const struct stat& info) {
#if defined(__APPLE__)
  return info.st_mtimespec.tv_sec * kSecond + info.st_mtimespec.tv_nsec;
#else
  return info.st_mtim.tv_sec * kSecond + info.st_mtim.tv_nsec;
#endif
}

/// What errno says: kUnavailable where only room is missing, which may come.
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

/// As many bytes as `bytes` has room for, from `offset` on.
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

/// Names in an open folder but for "." and "..", sorted, with what is known of each.
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
  while (const dirent* entry = ::readdir(entries.get())) {
    const std::string name = entry->d_name;
    struct stat info{};
    if (name == "." || name == "..") continue;
    if (::fstatat(folder, name.c_str(), &info, AT_SYMLINK_NOFOLLOW) != 0) continue;  // gone meanwhile
    names.emplace_back(name, info);
  }
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

/// That nobody but this user and root can have put anything there. Where it lies does not matter: in a folder with the
/// sticky bit, as /tmp is, others can neither rename nor replace it.
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

Error in_file(Error error, const std::filesystem::path& path) {
  error.message = path.string() + ": " + error.message;
  return error;
}

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

}  // namespace

FileTime file_time_now() {
  const auto now = std::chrono::system_clock::now().time_since_epoch();
  return std::chrono::duration_cast<std::chrono::nanoseconds>(now).count();
}

Status make_directory(const std::filesystem::path& directory) {
  std::error_code error;
  if (const auto above = directory.parent_path(); !above.empty()) std::filesystem::create_directories(above, error);
  if (::mkdir(directory.c_str(), kFolderMode) == 0 || errno == EEXIST) return {};
  if (error) errno = error.value();
  return disk_error("make", directory);
}

Result<DirectoryCheck> check_directory(const std::filesystem::path& directory) {
  const auto judged = [](Error error) -> Result<DirectoryCheck> {
    if (error.code == ErrorCode::kUnavailable) return DirectoryCheck{.warning = std::move(error.message)};
    error.message += "; name a folder that this user can make or write into";
    return std::unexpected(std::move(error));
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

Result<DiskFolder> DiskFolder::open(const std::filesystem::path& directory, const std::string& name,
                                    DiskAccess access) {
  ASSIGN_OR_RETURN(const Descriptor above, open_directory(directory));
  if (access == DiskAccess::kTrusting) RETURN_IF_ERROR(check_private(above, directory));
  const std::filesystem::path path = directory / name;
  Descriptor descriptor(::openat(above.get(), name.c_str(), O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC));
  if (!descriptor.is_open()) return system_error("open", path);
  if (access == DiskAccess::kTrusting) RETURN_IF_ERROR(check_private(descriptor, path));
  return DiskFolder(path, std::move(descriptor), access);
}

Result<DiskFolder> DiskFolder::open_or_make(const std::filesystem::path& directory, const std::string& name) {
  auto there = open(directory, name);
  if (there || there.error().code != ErrorCode::kNotFound) return there;
  RETURN_IF_ERROR(make_directory(directory));
  ASSIGN_OR_RETURN(const Descriptor above, open_directory(directory));
  if (::mkdirat(above.get(), name.c_str(), kFolderMode) != 0 && errno != EEXIST) {
    return disk_error("make", directory / name);
  }
  ASSIGN_OR_RETURN(DiskFolder made, open(directory, name));
  made.was_made_ = true;
  return made;
}

Result<DiskFolder::Listing> DiskFolder::list() const {
  ASSIGN_OR_RETURN(const auto names, list_names(descriptor_.get(), path_));
  Listing listing;
  for (const auto& [name, info] : names) {
    if (!S_ISREG(info.st_mode)) continue;
    const bool is_unfinished = name.ends_with(kTemporarySuffix);
    const std::string_view own =
        std::string_view(name).substr(0, name.size() - (is_unfinished ? kTemporarySuffix.size() : 0));
    if (!parse_file_name(own)) continue;
    if (!check_file(info, path_ / name)) {
      listing.untrusted.push_back(name);
      continue;
    }
    (is_unfinished ? listing.unfinished : listing.files)
        .push_back({.name = name, .bytes = static_cast<std::uint64_t>(info.st_size), .used_at = modified_at(info)});
  }
  return listing;
}

Status DiskFolder::check_file(const struct stat& info, const std::filesystem::path& path) const {
  if (!S_ISREG(info.st_mode)) return fail(ErrorCode::kIo, "not a regular file: " + path.string());
  if (access_ == DiskAccess::kLooking || is_trusted(info.st_uid)) return {};
  return fail(ErrorCode::kIo, path.string() + ": expected a file of " + user(::geteuid()) +
                                  ", who runs this, got one of " + user(info.st_uid));
}

Result<DiskFolder::OpenedFile> DiskFolder::open_file(const std::string& name, std::uint64_t max_bytes) const {
  OpenedFile file{.descriptor = Descriptor(
                      ::openat(descriptor_.get(), name.c_str(), O_RDONLY | O_NOFOLLOW | O_NONBLOCK | O_CLOEXEC)),
                  .path = path_ / name};
  if (!file.descriptor.is_open()) return system_error("open", file.path);
  struct stat info{};
  if (::fstat(file.descriptor.get(), &info) != 0) return system_error("stat", file.path);
  RETURN_IF_ERROR(check_file(info, file.path));
  file.bytes = static_cast<std::uint64_t>(info.st_size);
  if (file.bytes > max_bytes) {
    return fail(ErrorCode::kCorruptFile, file.path.string() + ": expected at most " + std::to_string(max_bytes) +
                                             " bytes, got " + std::to_string(file.bytes));
  }
  return file;
}

Result<FileHeader> DiskFolder::read_header(const std::string& name, std::uint64_t max_bytes) const {
  ASSIGN_OR_RETURN(const OpenedFile file, open_file(name, max_bytes));
  return read_header(file);
}

Result<FileHeader> DiskFolder::read_header(const OpenedFile& file) const {
  const auto named = [&](Error error) { return std::unexpected(in_file(std::move(error), file.path)); };
  const int fd = file.descriptor.get();
  std::vector<std::byte> bytes(std::min<std::uint64_t>(kFirstHeaderBytes, file.bytes));
  RETURN_IF_ERROR(read_exactly(fd, file.path, 0, bytes));
  const auto announced = announced_header_bytes(bytes, file.bytes);
  if (!announced) return named(announced.error());
  const std::size_t known = std::min(bytes.size(), *announced);
  bytes.resize(*announced);
  RETURN_IF_ERROR(read_exactly(fd, file.path, known, std::span(bytes).subspan(known)));
  auto header = decode_header(bytes, file.bytes);
  if (!header) return named(header.error());
  if (file_name(header->head.kind, header->head.key) != file.path.filename().string()) {
    return named({ErrorCode::kCorruptFile, "its name is not that of its key", {}});
  }
  if (folder_name(header->fingerprint) != path_.filename().string()) {
    return named({ErrorCode::kCorruptFile, "it is of another model: " + header->fingerprint, {}});
  }
  return header;
}

Result<DiskFolder::Content> DiskFolder::read(const std::string& name, PayloadCheck check, PayloadPool& payloads,
                                             std::uint64_t max_bytes) const {
  ASSIGN_OR_RETURN(const OpenedFile file, open_file(name, max_bytes));
  ASSIGN_OR_RETURN(FileHeader header, read_header(file));
  const std::uint64_t size = header.payload_bytes;
  Content content{.header = std::move(header), .payload = payloads.take(size)};
  RETURN_IF_ERROR(read_exactly(file.descriptor.get(), file.path, file.bytes - size, content.payload));
  if (check == PayloadCheck::kChecksum && payload_checksum(content.payload) != content.header.payload_checksum) {
    return fail(ErrorCode::kCorruptFile, file.path.string() + ": the payload's checksum is wrong");
  }
  return content;
}

/// Whether the name still means this file: another process may have renamed or removed it since it was opened.
bool DiskFolder::is_still(const std::string& name, const Descriptor& file) const {
  struct stat own{};
  struct stat named{};
  return ::fstat(file.get(), &own) == 0 &&
         ::fstatat(descriptor_.get(), name.c_str(), &named, AT_SYMLINK_NOFOLLOW) == 0 && own.st_ino == named.st_ino &&
         own.st_dev == named.st_dev;
}

std::optional<std::filesystem::path> DiskFolder::blocker(const std::string& name) const {
  for (const std::string& place : {name, name + std::string(kTemporarySuffix)}) {
    struct stat info{};
    const bool is_there = ::fstatat(descriptor_.get(), place.c_str(), &info, AT_SYMLINK_NOFOLLOW) == 0;
    if (is_there && S_ISDIR(info.st_mode)) return path_ / place;
  }
  return std::nullopt;
}

/// The temporary file, empty, with a lock that nobody else has; none where another writer has it. Who has the lock is
/// the only one to rename or remove the file.
Result<Descriptor> DiskFolder::lock_temporary(const std::string& name) const {
  for (;;) {
    Descriptor file(
        ::openat(descriptor_.get(), name.c_str(), O_WRONLY | O_CREAT | O_NOFOLLOW | O_NONBLOCK | O_CLOEXEC, kFileMode));
    if (!file.is_open()) return system_error("make", path_ / name);
    if (::flock(file.get(), LOCK_EX | LOCK_NB) != 0) {
      if (errno == EWOULDBLOCK) return Descriptor();
      return system_error("lock", path_ / name);
    }
    if (!is_still(name, file)) continue;
    struct stat info{};
    if (::fstat(file.get(), &info) != 0) return system_error("stat", path_ / name);
    RETURN_IF_ERROR(check_file(info, path_ / name));
    if (::ftruncate(file.get(), 0) != 0) return system_error("empty", path_ / name);
    return file;
  }
}

Result<DiskFolder::Written> DiskFolder::write(FileHeader header, std::span<const std::byte> payload) const {
  const std::string name = file_name(header.head.kind, header.head.key);
  const auto there = read_header(name, header_bytes(header.head) + payload.size());
  if (there && there->head == header.head && there->payload_bytes == payload.size()) return Written::kWasThere;

  const std::string temporary = name + std::string(kTemporarySuffix);
  ASSIGN_OR_RETURN(const Descriptor file, lock_temporary(temporary));
  if (!file.is_open()) return Written::kByAnother;
  const std::filesystem::path path = path_ / temporary;
  const auto fill = [&]() -> Status {
    header.payload_bytes = payload.size();
    header.payload_checksum = payload_checksum(payload);
    header.created_at = file_time_now() / kSecond;
    RETURN_IF_ERROR(write_all(file.get(), path, encode_header(header)));
    RETURN_IF_ERROR(write_all(file.get(), path, payload));
    if (write_through(file.get()) != 0) return system_error("write", path);
    if (::renameat(descriptor_.get(), temporary.c_str(), descriptor_.get(), name.c_str()) != 0) {
      return system_error("rename", path);
    }
    return {};
  };
  Status filled = fill();
  if (!filled) {
    ::unlinkat(descriptor_.get(), temporary.c_str(), 0);
    return std::unexpected(std::move(filled).error());
  }
  return Written::kNew;
}

Status DiskFolder::remove(const std::string& name) const {
  if (::unlinkat(descriptor_.get(), name.c_str(), 0) == 0 || errno == ENOENT) return {};
  return system_error("remove", path_ / name);
}

bool DiskFolder::remove_unfinished(const std::string& name) const {
  const Descriptor file(::openat(descriptor_.get(), name.c_str(), O_WRONLY | O_NOFOLLOW | O_NONBLOCK | O_CLOEXEC));
  return file.is_open() && ::flock(file.get(), LOCK_EX | LOCK_NB) == 0 && is_still(name, file) &&
         ::unlinkat(descriptor_.get(), name.c_str(), 0) == 0;
}

Status DiskFolder::set_used_at(const std::string& name, FileTime time) const {
  timespec times[2] = {};
  times[0].tv_nsec = UTIME_OMIT;
  times[1].tv_sec = time / kSecond;
  times[1].tv_nsec = time % kSecond;
  if (::utimensat(descriptor_.get(), name.c_str(), times, AT_SYMLINK_NOFOLLOW) == 0) return {};
  return system_error("set the time of", path_ / name);
}

void DiskFolder::remove_if_empty(const std::filesystem::path& directory, const std::string& name) {
  static_cast<void>(::rmdir((directory / name).c_str()));
}

}  // namespace redpoll::cache
