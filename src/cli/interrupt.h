// Ctrl-C as a request instead of an end.
#pragma once

#include <csignal>

namespace redpoll::cli {

/// While it lives, Ctrl-C sets `interrupted` instead of ending the process. May live inside another one; each begins
/// with nothing interrupted. For one thread; the signal itself may come to any.
class InterruptGuard {
 public:
  InterruptGuard();
  ~InterruptGuard();  // back to what Ctrl-C did before
  InterruptGuard(const InterruptGuard&) = delete;
  InterruptGuard& operator=(const InterruptGuard&) = delete;

  [[nodiscard]] static bool interrupted();

 private:
  struct sigaction previous_{};
};

}  // namespace redpoll::cli
