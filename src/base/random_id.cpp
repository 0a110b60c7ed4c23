#include "base/random_id.h"

#include <random>
#include <string_view>

namespace redpoll {

std::string random_hex() {
  constexpr std::string_view kDigits = "0123456789abcdef";
  std::random_device random;
  std::string digits;
  for (int word = 0; word < 4; ++word) {
    const unsigned int bits = random();
    for (unsigned int shift = 0; shift < 32; shift += 4) digits += kDigits[(bits >> shift) & 15U];
  }
  return digits;
}

}  // namespace redpoll
