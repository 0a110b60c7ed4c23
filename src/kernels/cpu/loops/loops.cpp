#include "kernels/cpu/loops/loops.h"

namespace redpoll::kernels::cpu {

const Loops& loops_of(Variant variant) {
#if defined(__x86_64__)
  if (variant == Variant::kAvx512) return avx512::loops();
  if (variant == Variant::kAvxVnni) return avxvnni::loops();
  if (variant == Variant::kAvx2) return avx2::loops();
#endif
  static_cast<void>(variant);  // one variant only
  return portable::loops();
}

}  // namespace redpoll::kernels::cpu
