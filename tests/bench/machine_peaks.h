// What a machine can do at best: bytes read and multiply-adds a second, to hold measured kernels against.
#pragma once

namespace redpoll::bench {

enum class Vectors { k256, k512 };

/// Of all threads together, in 10^9 a second. Multiply-adds are 0 on processors that have no such vectors. One for int8
/// is a product of 8-bit integers with the addition of what comes out of it.
struct Peaks {
  double read_gigabytes = 0;
  double float_multiply_adds = 0;
  double int8_multiply_adds = 0;
};

[[nodiscard]] Peaks measure_peaks(int threads, Vectors vectors);

}  // namespace redpoll::bench
