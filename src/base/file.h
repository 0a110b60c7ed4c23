// Files: whole reads and read-only memory maps, with errors that name the path and the reason.
#pragma once

#include <cstddef>
#include <filesystem>
#include <memory>
#include <span>
#include <string>
#include <string_view>

#include "base/error.h"

namespace redpoll {

/// What errno says of an action that failed: "cannot open PATH: Permission denied". kNotFound for what is not there,
/// kIo for anything else.
[[nodiscard]] std::unexpected<Error> system_error(std::string_view action, const std::filesystem::path& path);

/// Reads a regular file of at most `max_bytes`; not for /proc, whose files have no size beforehand. A missing file is
/// kNotFound, anything else kIo.
[[nodiscard]] Result<std::string> read_file(const std::filesystem::path& path, std::size_t max_bytes = 1U << 30U);

/// A regular file mapped read-only for as long as the object lives. Immutable, so safe to read from any thread; a
/// file that is truncated by others while mapped is outside what any program can survive cheaply.
class MappedFile {
 public:
  [[nodiscard]] static Result<std::shared_ptr<const MappedFile>> open(const std::filesystem::path& path);
  ~MappedFile();
  MappedFile(const MappedFile&) = delete;
  MappedFile& operator=(const MappedFile&) = delete;

  [[nodiscard]] std::span<const std::byte> bytes() const { return bytes_; }
  [[nodiscard]] const std::filesystem::path& path() const { return path_; }

 private:
  MappedFile(std::filesystem::path path, std::span<const std::byte> bytes) : path_(std::move(path)), bytes_(bytes) {}

  std::filesystem::path path_;
  std::span<const std::byte> bytes_;
};

}  // namespace redpoll
