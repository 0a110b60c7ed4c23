// Context: what all CPU kernels of one engine share.
#pragma once

#include <string>

#include "kernels/cpu/loops.h"
#include "kernels/cpu/parallel_for.h"
#include "kernels/kernels.h"

namespace redpoll::kernels::cpu {

struct Context {
  Context(Variant variant, int num_threads, Activations rounding, KvType stored)
      : name("cpu-" + std::string(variant_name(variant)) + (rounding == Activations::kInt8 ? "-int8" : "")),
        activations(rounding),
        kv_type(stored),
        loops(loops_of(variant)),
        team(num_threads) {}

  std::string name;
  Activations activations;
  KvType kv_type;
  const Loops& loops;
  ThreadTeam team;
};

}  // namespace redpoll::kernels::cpu
