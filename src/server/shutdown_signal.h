// Waiting for SIGINT or SIGTERM: the first asks for an orderly end, a second one ends the process at once.
#pragma once

namespace redpoll::server {

/// Handles both signals from construction on; before that they kill the process as usual, which is right while a model
/// is still loading. One at a time per process.
class ShutdownSignal {
 public:
  ShutdownSignal();
  ~ShutdownSignal();  // back to the default action
  ShutdownSignal(const ShutdownSignal&) = delete;
  ShutdownSignal& operator=(const ShutdownSignal&) = delete;

  /// Blocks until one of them comes. Returns its number.
  [[nodiscard]] int wait() const;

 private:
  int read_end_ = -1;
  int write_end_ = -1;
};

}  // namespace redpoll::server
