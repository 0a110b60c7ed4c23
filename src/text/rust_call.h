// What the .cpp files of this folder share to call the Rust library: buffers that free themselves, and failures as
// Errors. Not for other folders: nothing outside text/*.cpp sees the C interface.
#pragma once

#include <redpoll_text.h>

#include <string>
#include <string_view>

#include "base/error.h"

namespace redpoll::text {

/// An RpBuffer that frees itself.
class RustBuffer {
 public:
  RustBuffer() = default;
  ~RustBuffer() { rp_buffer_free(buffer_); }
  RustBuffer(const RustBuffer&) = delete;
  RustBuffer& operator=(const RustBuffer&) = delete;

  /// For a function that fills it; once only.
  [[nodiscard]] RpBuffer* out() { return &buffer_; }
  [[nodiscard]] std::string_view view() const { return {reinterpret_cast<const char*>(buffer_.data), buffer_.size}; }

 private:
  RpBuffer buffer_{};
};

[[nodiscard]] inline const std::uint8_t* rust_bytes(std::string_view text) {
  return reinterpret_cast<const std::uint8_t*>(text.data());
}

/// The Error of a call that failed; `invalid` is the code for input at fault.
[[nodiscard]] inline std::unexpected<Error> rust_failure(RpStatus status, std::string_view message, ErrorCode invalid) {
  ErrorCode code = invalid;
  if (status == RP_UNSUPPORTED) code = ErrorCode::kUnsupported;
  if (status == RP_PANIC) code = ErrorCode::kInternal;
  return fail(code, std::string(message));
}

}  // namespace redpoll::text
