// Context: what all CPU kernels of one engine share.
#pragma once

#include "kernels/cpu/loops.h"
#include "kernels/cpu/parallel_for.h"

namespace redpoll::kernels::cpu {

struct Context {
  Context(Variant chosen, int num_threads) : variant(chosen), loops(loops_of(chosen)), team(num_threads) {}

  Variant variant;
  const Loops& loops;
  ThreadTeam team;
};

}  // namespace redpoll::kernels::cpu
