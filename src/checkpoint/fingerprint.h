// The identity of a checkpoint for caches. Internal to checkpoint/.
#pragma once

#include <memory>
#include <span>
#include <string>
#include <string_view>

#include "base/file.h"

namespace redpoll::checkpoint {

/// SHA-256 over the config's text, every tensor's name, type and shape (`tensors`, a text for each), and each file's
/// size and a sample of its bytes: all of a file up to one megabyte, else 256 stretches of 4 KiB spread evenly from the
/// first byte to the last. Reading all of a large model would take longer than loading it.
[[nodiscard]] std::string fingerprint(std::string_view config_text, std::span<const std::string> tensors,
                                      std::span<const std::shared_ptr<const MappedFile>> files);

/// SHA-256 over `beginning` and the XXH3 of all bytes of each file.
[[nodiscard]] std::string whole_fingerprint(std::string_view beginning,
                                            std::span<const std::shared_ptr<const MappedFile>> files);

}  // namespace redpoll::checkpoint
