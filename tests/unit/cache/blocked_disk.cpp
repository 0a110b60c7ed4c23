#include "unit/cache/blocked_disk.h"

#include <fcntl.h>
#include <sys/uio.h>
#include <unistd.h>

#include <condition_variable>
#include <limits>
#include <mutex>

namespace redpoll::test {
namespace {

constexpr int kAll = std::numeric_limits<int>::max();

std::mutex mutex;
std::condition_variable changed;
bool is_blocked = false;
int num_waiters = 0;
int num_readable = kAll;  // files
int num_readers = 0;      // that wait

void wait_for_disk() {
  std::unique_lock lock(mutex);
  ++num_waiters;
  changed.wait(lock, [] { return !is_blocked; });
  --num_waiters;
}

/// At the beginning of a file.
void wait_to_read() {
  std::unique_lock lock(mutex);
  ++num_readers;
  changed.wait(lock, [] { return num_readable > 0; });
  --num_readers;
  if (num_readable != kAll) --num_readable;
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

BlockedReads::BlockedReads(int num_files) {
  const std::lock_guard lock(mutex);
  num_readable = num_files;
}

void BlockedReads::allow_one_more() {
  const std::lock_guard lock(mutex);
  ++num_readable;
  changed.notify_all();
}

void BlockedReads::release() {
  const std::lock_guard lock(mutex);
  num_readable = kAll;
  changed.notify_all();
}

bool BlockedReads::has_waiters() const {
  const std::lock_guard lock(mutex);
  return num_readers > 0;
}

}  // namespace redpoll::test

// In place of the system library's.
extern "C" ssize_t pread(int fd, void* bytes, size_t num_bytes, off_t offset) {
  if (offset == 0) redpoll::test::wait_to_read();
  const iovec part{.iov_base = bytes, .iov_len = num_bytes};
  return ::preadv(fd, &part, 1, offset);
}
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
