#include "base/file.h"

#include <fcntl.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>
#include <cstring>

#include "base/descriptor.h"

namespace redpoll {

std::unexpected<Error> system_error(std::string_view action, const std::filesystem::path& path) {
  const int code = errno;
  return fail(code == ENOENT || code == ENOTDIR ? ErrorCode::kNotFound : ErrorCode::kIo,
              "cannot " + std::string(action) + " " + path.string() + ": " + std::strerror(code));
}

namespace {

struct OpenedFile {
  Descriptor descriptor;
  std::size_t size;
};

Result<OpenedFile> open_regular(const std::filesystem::path& path) {
  Descriptor descriptor(::open(path.c_str(), O_RDONLY | O_CLOEXEC | O_NONBLOCK));
  if (!descriptor.is_open()) return system_error("open", path);
  struct stat info{};
  if (::fstat(descriptor.get(), &info) != 0) return system_error("stat", path);
  if (!S_ISREG(info.st_mode)) return fail(ErrorCode::kIo, "not a regular file: " + path.string());
  return OpenedFile{std::move(descriptor), static_cast<std::size_t>(info.st_size)};
}

}  // namespace

Result<std::string> read_file(const std::filesystem::path& path, std::size_t max_bytes) {
  ASSIGN_OR_RETURN(OpenedFile file, open_regular(path));
  if (file.size > max_bytes) {
    return fail(ErrorCode::kIo, path.string() + " has " + std::to_string(file.size) + " bytes, more than the " +
                                    std::to_string(max_bytes) + " expected at most");
  }
  std::string content(file.size, '\0');
  std::size_t filled = 0;
  while (filled < content.size()) {
    const ssize_t got = ::read(file.descriptor.get(), content.data() + filled, content.size() - filled);
    if (got < 0 && errno == EINTR) continue;
    if (got < 0) return system_error("read", path);
    if (got == 0) break;  // truncated meanwhile
    filled += static_cast<std::size_t>(got);
  }
  content.resize(filled);
  return content;
}

Result<std::shared_ptr<const MappedFile>> MappedFile::open(const std::filesystem::path& path) {
  ASSIGN_OR_RETURN(const OpenedFile file, open_regular(path));
  std::span<const std::byte> bytes;
  if (file.size > 0) {  // an empty mapping is an error to mmap, not to us
    void* address = ::mmap(nullptr, file.size, PROT_READ, MAP_PRIVATE, file.descriptor.get(), 0);
    if (address == MAP_FAILED) return system_error("map", path);
    bytes = {static_cast<const std::byte*>(address), file.size};
  }
  return std::shared_ptr<const MappedFile>(new MappedFile(path, bytes));
}

MappedFile::~MappedFile() {
  if (!bytes_.empty()) ::munmap(const_cast<std::byte*>(bytes_.data()), bytes_.size());
}

}  // namespace redpoll
