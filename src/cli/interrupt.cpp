#include "cli/interrupt.h"

#include <atomic>
namespace redpoll::cli {
namespace {

std::atomic<bool> interrupt_requested = false;
static_assert(std::atomic<bool>::is_always_lock_free, "set from a signal handler");

void on_interrupt(int) { interrupt_requested = true; }

}  // namespace

InterruptGuard::InterruptGuard() {
  interrupt_requested = false;
  struct sigaction action{};
  action.sa_handler = on_interrupt;
  sigemptyset(&action.sa_mask);
  ::sigaction(SIGINT, &action, &previous_);
}

InterruptGuard::~InterruptGuard() { ::sigaction(SIGINT, &previous_, nullptr); }

bool InterruptGuard::interrupted() { return interrupt_requested; }

}  // namespace redpoll::cli
