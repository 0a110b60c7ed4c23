#include "kernels/cpu/features.h"

#include <string>

#include "base/log.h"

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

Variant choose_variant(const char* forced) {
  const std::vector<Variant>& variants = available_variants();
  const Variant best = variants.back();
  if (forced == nullptr || *forced == '\0') return best;
  std::string choices;
  for (const Variant variant : variants) {
    if (variant_name(variant) == forced) return variant;
    if (!choices.empty()) choices += ", ";
    choices += variant_name(variant);
  }
  log_warn("REDPOLL_CPU names no kernels that this machine has; taking the fastest",
           {{"got", forced}, {"choices", choices}, {"taken", std::string(variant_name(best))}});
  return best;
}

}  // namespace redpoll::kernels::cpu
