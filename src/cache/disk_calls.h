// System calls that the disk tier makes on its directory and files: done to the end, with errors that name the path.
#pragma once

#include <sys/stat.h>
#include <sys/types.h>

#include <cstddef>
#include <cstdint>
#include <filesystem>
#include <span>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "base/descriptor.h"
#include "base/error.h"

namespace redpoll::cache {

/// Of a file that is not complete yet.
inline constexpr std::string_view kTemporarySuffix = ".tmp";
inline constexpr mode_t kFolderMode = 0700;
inline constexpr mode_t kFileMode = 0600;

/// What errno says: kUnavailable where only room is missing, which may come.
[[nodiscard]] std::unexpected<Error> disk_error(std::string_view action, const std::filesystem::path& path);

/// As many bytes as `bytes` has room for, from `offset` on. kCorruptFile if there are fewer.
[[nodiscard]] Status read_exactly(int fd, const std::filesystem::path& path, std::uint64_t offset,
                                  std::span<std::byte> bytes);
[[nodiscard]] Status write_all(int fd, const std::filesystem::path& path, std::span<const std::byte> bytes);
/// Until the disk has what was written; 0, or -1 with errno.
[[nodiscard]] int write_through(int fd);

[[nodiscard]] Result<Descriptor> open_directory(const std::filesystem::path& directory);
/// Names in an open folder but for "." and "..", sorted, with what is known of each.
[[nodiscard]] Result<std::vector<std::pair<std::string, struct stat>>> list_names(int folder,
                                                                                  const std::filesystem::path& path);

/// This process's user, and root, who may do anything.
[[nodiscard]] bool is_trusted(uid_t owner);
/// As messages call one.
[[nodiscard]] std::string user(uid_t id);

}  // namespace redpoll::cache
