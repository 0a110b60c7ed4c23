// Context: what all CPU kernels of one engine share.
#pragma once

#include <string>

#include "kernels/cpu/loops.h"
#include "kernels/cpu/parallel_for.h"
#include "kernels/kernels.h"

namespace redpoll::kernels::cpu {

struct Context {
  Context(Variant variant, int num_threads, Activations rounding)
      : name("cpu-" + std::string(variant_name(variant)) + (rounding == Activations::kInt8 ? "-int8" : "")),
        activations(rounding),
        loops(loops_of(variant)),
        team(num_threads) {}

  std::string name;
  Activations activations;
  const Loops& loops;
  ThreadTeam team;
};

}  // namespace redpoll::kernels::cpu
