// Roofline: what this machine can do at best, measured: the two limits that no operation beats, reading memory and
// computing. Benchmarks set their figures against it.
#pragma once

#include "kernels/cpu/features.h"

namespace redpoll::bench {

/// Of `num_threads` threads together, in 10^9 a second. A multiply-add counts two operations.
struct Roofline {
  double read_gb_per_s = 0;    // from memory: the buffer is far larger than the last cache
  double float_gop_per_s = 0;  // multiply-adds of the variant's vectors, in registers
  double int16_gop_per_s = 0;  // its products of 16-bit integers, each added to a 32-bit sum
  double int8_gop_per_s = 0;   // its products of 8-bit integers, each added to an integer sum
};

/// Takes about two seconds. The best of several passes, since everything that disturbs a pass makes it slower.
[[nodiscard]] Roofline measure_roofline(kernels::cpu::Variant variant, int num_threads);

}  // namespace redpoll::bench
