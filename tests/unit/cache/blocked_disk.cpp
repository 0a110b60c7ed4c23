#include "unit/cache/blocked_disk.h"

#include <fcntl.h>
#include <unistd.h>

#include <condition_variable>
#include <mutex>

namespace redpoll::test {
namespace {

std::mutex mutex;
std::condition_variable changed;
bool is_blocked = false;
int num_waiters = 0;

void wait_for_disk() {
  std::unique_lock lock(mutex);
  ++num_waiters;
  changed.wait(lock, [] { return !is_blocked; });
  --num_waiters;
}

}  // namespace

BlockedDisk::BlockedDisk() {
  const std::lock_guard lock(mutex);
  is_blocked = true;
}

void BlockedDisk::release() {
  const std::lock_guard lock(mutex);
  is_blocked = false;
  changed.notify_all();
}

bool BlockedDisk::has_waiters() const {
  const std::lock_guard lock(mutex);
  return num_waiters > 0;
}

}  // namespace redpoll::test

// In place of the system library's.
#if defined(__APPLE__)
extern "C" int fsync(int fd) {
  redpoll::test::wait_for_disk();
  return ::fcntl(fd, F_FULLFSYNC);
}
#else
extern "C" int fdatasync(int fd) {
  redpoll::test::wait_for_disk();
  return ::fsync(fd);
}
#endif
