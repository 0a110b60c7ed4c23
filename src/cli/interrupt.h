// Ctrl-C as a request instead of an end.
#pragma once

namespace redpoll::cli {

/// While it lives, Ctrl-C sets `interrupted` instead of ending the process, and reads from the terminal fail with
/// EINTR. One at a time.
class InterruptGuard {
 public:
  InterruptGuard();
  ~InterruptGuard();  // back to the default action
  InterruptGuard(const InterruptGuard&) = delete;
  InterruptGuard& operator=(const InterruptGuard&) = delete;

  [[nodiscard]] static bool interrupted();
};

}  // namespace redpoll::cli
