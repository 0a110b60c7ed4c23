// Features: which inner loops this processor can run. A variant is a set of inner loops compiled for one instruction
// set; everything around them is common code.
#pragma once

#include <string_view>
#include <vector>

#include "base/error.h"
#include "kernels/kernel_options.h"

namespace redpoll::kernels::cpu {

/// Slowest first. `kPortable` is plain C++ that any compiler vectorizes for its baseline. `kAvx2` wants FMA and F16C
/// too, `kAvxVnni` is that with dot products of bytes, `kAvx512` wants the subsets F, BW, VL, DQ and VNNI: processors
/// with fewer of them are as well off with AVX2.
enum class Variant { kPortable, kAvx2, kAvxVnni, kAvx512 };

[[nodiscard]] std::string_view variant_name(Variant variant);

/// The variants that this machine runs, slowest first; never empty.
[[nodiscard]] const std::vector<Variant>& available_variants();

/// The fastest variant, or the one that `forced` (the value of REDPOLL_CPU; null or empty: none) names; an Error with
/// the choices for a name that this machine does not have.
[[nodiscard]] Result<Variant> choose_variant(const char* forced);
/// As the environment has it.
[[nodiscard]] Result<Variant> chosen_variant();

/// What activations are rounded to where nobody says it: int16, of which an instruction multiplies twice as many as of
/// float32 (docs/decisions/0009); compilers find no such instruction for the portable loops.
[[nodiscard]] constexpr Activations usual_activations(Variant variant) {
  return variant == Variant::kPortable ? Activations::kFloat32 : Activations::kInt16;
}

}  // namespace redpoll::kernels::cpu
