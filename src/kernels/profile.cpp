#include "kernels/profile.h"

namespace redpoll::kernels {

Work& Work::operator+=(const Work& more) {
  bytes += more.bytes;
  float_ops += more.float_ops;
  int16_ops += more.int16_ops;
  int8_ops += more.int8_ops;
  return *this;
}

OperationTotals& OperationTotals::operator+=(const OperationTotals& more) {
  calls += more.calls;
  time += more.time;
  work += more.work;
  return *this;
}

void merge_operations(OperationTable& table, const OperationTable& more) {
  for (const auto& [key, totals] : more) table[key] += totals;
}

void KernelProfile::add(const OperationKey& key, const Work& work, std::chrono::nanoseconds time) {
  table_[key] += {.calls = 1, .time = time, .work = work};
}

void KernelProfile::clear() {
  for (auto& [key, totals] : table_) totals = {};
}

}  // namespace redpoll::kernels
