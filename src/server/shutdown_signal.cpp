#include "server/shutdown_signal.h"

#include <fcntl.h>
#include <unistd.h>

#include <atomic>
#include <cerrno>
#include <csignal>

#include "base/error.h"

namespace redpoll::server {
namespace {

std::atomic<int> wake_descriptor = -1;
static_assert(std::atomic<int>::is_always_lock_free, "the handler may touch nothing else");

// Only async-signal-safe calls. The default action comes back first, so that the next signal kills.
void on_signal(int number) {
  const int saved_errno = errno;
  std::signal(SIGINT, SIG_DFL);
  std::signal(SIGTERM, SIG_DFL);
  const char byte = static_cast<char>(number);
  [[maybe_unused]] const auto written = ::write(wake_descriptor.load(), &byte, 1);
  errno = saved_errno;
}

}  // namespace

ShutdownSignal::ShutdownSignal() {
  int ends[2];
  CHECK(::pipe(ends) == 0, "no file descriptors left for the signal pipe");
  read_end_ = ends[0];
  write_end_ = ends[1];
  for (const int end : ends) ::fcntl(end, F_SETFD, FD_CLOEXEC);
  wake_descriptor = write_end_;
  std::signal(SIGINT, on_signal);
  std::signal(SIGTERM, on_signal);
}

ShutdownSignal::~ShutdownSignal() {
  std::signal(SIGINT, SIG_DFL);
  std::signal(SIGTERM, SIG_DFL);
  wake_descriptor = -1;
  ::close(read_end_);
  ::close(write_end_);
}

int ShutdownSignal::wait() const {
  char byte = 0;
  while (::read(read_end_, &byte, 1) < 0 && errno == EINTR) {
  }
  return byte;
}

}  // namespace redpoll::server
