// The directory of the disk tier, which holds a folder for each fingerprint: whether it can be made, written into and
// trusted. Errors name the path.
#pragma once

#include <filesystem>
#include <string>
#include <vector>

#include "base/descriptor.h"
#include "base/error.h"

namespace redpoll::cache {

/// Makes the directory, with all above it, unless it is there. kUnavailable if there is no room for it.
[[nodiscard]] Status make_directory(const std::filesystem::path& directory);

struct DirectoryCheck {
  std::string warning;  // why nothing can be written now: the disk is full; empty if something can
};
/// Makes it, and writes into it: an Error with what to do about it for one where a tier could never keep anything.
[[nodiscard]] Result<DirectoryCheck> check_directory(const std::filesystem::path& directory);
/// Makes nothing: an Error if the directory, which is not there, could not be made where it should be.
[[nodiscard]] Status check_could_be_made(const std::filesystem::path& directory);

/// That nobody but this user and root can have put anything into an open folder. Where it lies does not matter: in a
/// folder with the sticky bit, as /tmp is, others can neither rename nor replace it.
[[nodiscard]] Status check_private(const Descriptor& folder, const std::filesystem::path& path);

/// Names of the folders in it that fingerprints could have, sorted.
[[nodiscard]] Result<std::vector<std::string>> list_folders(const std::filesystem::path& directory);

}  // namespace redpoll::cache
