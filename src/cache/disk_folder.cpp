#include "cache/disk_folder.h"

#include <fcntl.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <chrono>
#include <optional>
#include <utility>

#include "base/file.h"
#include "cache/disk_calls.h"
#include "cache/disk_directory.h"

namespace redpoll::cache {
namespace {

constexpr std::int64_t kSecond = 1'000'000'000;  // nanoseconds

FileTime modified_at(const struct stat& info) {
#if defined(__APPLE__)
  return info.st_mtimespec.tv_sec * kSecond + info.st_mtimespec.tv_nsec;
#else
  return info.st_mtim.tv_sec * kSecond + info.st_mtim.tv_nsec;
#endif
}

Error in_file(Error error, const std::filesystem::path& path) {
  error.message = path.string() + ": " + error.message;
  return error;
}

}  // namespace

FileTime file_time_now() {
  const auto now = std::chrono::system_clock::now().time_since_epoch();
  return std::chrono::duration_cast<std::chrono::nanoseconds>(now).count();
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
