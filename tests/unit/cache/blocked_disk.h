// The disk of test_cache and test_engine: stops answering on demand.
#pragma once

namespace redpoll::test {

/// While it is there, or until `release`, whoever waits for a file to reach the disk goes on waiting. One at a time.
class BlockedDisk {
 public:
  BlockedDisk();
  ~BlockedDisk() { release(); }
  BlockedDisk(const BlockedDisk&) = delete;
  BlockedDisk& operator=(const BlockedDisk&) = delete;

  void release();
  [[nodiscard]] bool has_waiters() const;
};

/// While it is there, or until `release`, only so many more files can be read: whoever begins with another one waits.
/// One at a time.
class BlockedReads {
 public:
  explicit BlockedReads(int num_files = 0);
  ~BlockedReads() { release(); }
  BlockedReads(const BlockedReads&) = delete;
  BlockedReads& operator=(const BlockedReads&) = delete;

  void allow_one_more();
  void release();
  [[nodiscard]] bool has_waiters() const;
};

}  // namespace redpoll::test
