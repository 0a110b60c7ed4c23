#include "kernels/cpu/features.h"

#include <cstdlib>
#include <string>

namespace redpoll::kernels::cpu {
namespace {

bool has_avx2() {
#if defined(__x86_64__)
  return __builtin_cpu_supports("avx2") && __builtin_cpu_supports("fma") && __builtin_cpu_supports("f16c");
#else
  return false;
#endif
}

bool has_avx_vnni() {
#if defined(__x86_64__)
  return has_avx2() && __builtin_cpu_supports("avxvnni");
#else
  return false;
#endif
}

bool has_avx512() {
#if defined(__x86_64__)
  return has_avx2() && __builtin_cpu_supports("avx512f") && __builtin_cpu_supports("avx512bw") &&
         __builtin_cpu_supports("avx512vl") && __builtin_cpu_supports("avx512dq") &&
         __builtin_cpu_supports("avx512vnni");
#else
  return false;
#endif
}

}  // namespace

std::string_view variant_name(Variant variant) {
  switch (variant) {
    case Variant::kAvx512: return "avx512";
    case Variant::kAvxVnni: return "avxvnni";
    case Variant::kAvx2: return "avx2";
    case Variant::kPortable: break;
  }
  return "portable";
}

const std::vector<Variant>& available_variants() {
  static const std::vector<Variant> variants = [] {
    std::vector<Variant> found{Variant::kPortable};
    if (has_avx2()) found.push_back(Variant::kAvx2);
    if (has_avx_vnni()) found.push_back(Variant::kAvxVnni);
    if (has_avx512()) found.push_back(Variant::kAvx512);
    return found;
  }();
  return variants;
}

Result<Variant> choose_variant(const char* forced) {
  const std::vector<Variant>& variants = available_variants();
  if (forced == nullptr || *forced == '\0') return variants.back();
  std::string choices;
  for (const Variant variant : variants) {
    if (variant_name(variant) == forced) return variant;
    if (!choices.empty()) choices += ", ";
    choices += variant_name(variant);
  }
  return fail(ErrorCode::kInvalidArgument,
              "REDPOLL_CPU names kernels that this machine does not have: expected one of " + choices + ", got '" +
                  std::string(forced) + "'",
              "REDPOLL_CPU");
}

Result<Variant> chosen_variant() { return choose_variant(std::getenv("REDPOLL_CPU")); }

}  // namespace redpoll::kernels::cpu
