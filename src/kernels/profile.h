// KernelProfile: where the time of a forward pass goes, by operation and shape. Filled by ProfilingKernels, read by
// benchmarks; plain data, no arrays.
#pragma once

#include <chrono>
#include <cstdint>
#include <map>
#include <string>
#include <utility>

namespace redpoll::kernels {

/// What an operation cannot do without, however it is implemented: bytes read and written once each, and arithmetic.
struct Work {
  double bytes = 0;
  double float_ops = 0;  // a multiply-add counts two
  double int16_ops = 0;  // the same for 16-bit integers
  double int8_ops = 0;   // and for 8-bit integers

  Work& operator+=(const Work& more);
};

struct OperationTotals {
  std::uint64_t calls = 0;
  std::chrono::nanoseconds time{0};
  Work work;

  OperationTotals& operator+=(const OperationTotals& more);
};

/// An operation and the part of its shape that does not change from step to step: {"matmul", "576 -> 1536, 4 bits"}.
using OperationKey = std::pair<std::string, std::string>;
using OperationTable = std::map<OperationKey, OperationTotals>;

/// Adds what `more` has to what `table` has.
void merge_operations(OperationTable& table, const OperationTable& more);

/// For the engine thread.
class KernelProfile {
 public:
  void add(const OperationKey& key, const Work& work, std::chrono::nanoseconds time);
  /// What has come since `clear`. Its keys stay, so that the memory does.
  [[nodiscard]] const OperationTable& operations() const { return table_; }
  void clear();

 private:
  OperationTable table_;
};

}  // namespace redpoll::kernels
