// The tensor types of the GGUF container: names of all, block layouts of those we read.
#include <array>

#include "checkpoint/gguf/file.h"

namespace redpoll::checkpoint {
namespace {

// By type code; "" for codes that were withdrawn.
constexpr std::array<std::string_view, 40> kNames = {
    "F32",    "F16",      "Q4_0",     "Q4_1",     "Q4_2",  "Q4_3",  "Q5_0",       "Q5_1",       "Q8_0",       "Q8_1",
    "Q2_K",   "Q3_K",     "Q4_K",     "Q5_K",     "Q6_K",  "Q8_K",  "IQ2_XXS",    "IQ2_XS",     "IQ3_XXS",    "IQ1_S",
    "IQ4_NL", "IQ3_S",    "IQ2_S",    "IQ4_XS",   "I8",    "I16",   "I32",        "I64",        "F64",        "IQ1_M",
    "BF16",   "Q4_0_4_4", "Q4_0_4_8", "Q4_0_8_8", "TQ1_0", "TQ2_0", "IQ4_NL_4_4", "IQ4_NL_4_8", "IQ4_NL_8_8", "MXFP4"};

}  // namespace

std::string gguf_type_name(std::uint32_t type) {
  return type < kNames.size() ? std::string(kNames[type]) : "type " + std::to_string(type);
}

std::optional<GgufBlock> gguf_block(std::uint32_t type) {
  switch (static_cast<GgufType>(type)) {
    case GgufType::kF32: return GgufBlock{1, 4};
    case GgufType::kF16:
    case GgufType::kBF16: return GgufBlock{1, 2};
    case GgufType::kQ40: return GgufBlock{32, 18};    // half d, 16 bytes of nibbles
    case GgufType::kQ41: return GgufBlock{32, 20};    // half d, half m, nibbles
    case GgufType::kQ50: return GgufBlock{32, 22};    // half d, 32 high bits, nibbles
    case GgufType::kQ51: return GgufBlock{32, 24};    // half d, half m, 32 high bits, nibbles
    case GgufType::kQ80: return GgufBlock{32, 34};    // half d, 32 signed bytes
    case GgufType::kQ4K: return GgufBlock{256, 144};  // half d, half dmin, 12 bytes of 6-bit scales and mins, nibbles
    case GgufType::kQ5K: return GgufBlock{256, 176};  // as Q4_K with 32 bytes of high bits before the nibbles
    case GgufType::kMxfp4: return GgufBlock{32, 17};  // exponent, nibbles
    case GgufType::kQ6K: return GgufBlock{256, 210};  // 128 low nibbles, 64 high pairs, 16 signed scales, half d
  }
  return std::nullopt;
}

}  // namespace redpoll::checkpoint
