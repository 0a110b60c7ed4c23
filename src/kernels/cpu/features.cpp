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

}  // namespace

std::string_view variant_name(Variant variant) { return variant == Variant::kAvx2 ? "avx2" : "portable"; }

const std::vector<Variant>& available_variants() {
  static const std::vector<Variant> variants = [] {
    std::vector<Variant> found{Variant::kPortable};
    if (has_avx2()) found.push_back(Variant::kAvx2);
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
