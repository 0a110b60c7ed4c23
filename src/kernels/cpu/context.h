// Context: what all CPU kernels of one engine share.
#pragma once

#include <string>
#include <vector>

#include "base/aligned_memory.h"
#include "kernels/cpu/buffer.h"
#include "kernels/cpu/loops/loops.h"
#include "kernels/cpu/parallel_for.h"
#include "kernels/kernels.h"

namespace redpoll::kernels::cpu {

/// Memory for each thread of a team, grown between its jobs because a body must not throw.
class ThreadScratch {
 public:
  explicit ThreadScratch(int num_threads) : memory_(static_cast<std::size_t>(num_threads)) {}

  /// What it held is lost.
  void reserve(std::size_t num_floats) {
    if (num_floats <= num_floats_) return;
    for (AlignedBytes& memory : memory_) memory = allocate_aligned(num_floats * sizeof(float));
    num_floats_ = num_floats;
  }
  /// Of the thread that asks, within a body.
  [[nodiscard]] float* mine() const {
    return reinterpret_cast<float*>(memory_[static_cast<std::size_t>(ThreadTeam::this_thread())].get());
  }

 private:
  std::vector<AlignedBytes> memory_;
  std::size_t num_floats_ = 0;
};

struct Context {
  Context(Variant variant, int num_threads, Activations rounding, KvType stored)
      : name("cpu-" + std::string(variant_name(variant)) +
             (rounding == Activations::kFloat32 ? "" : '-' + std::string(activations_name(rounding)))),
        activations(rounding),
        kv_type(stored),
        loops(loops_of(variant)),
        team(num_threads),
        scratch(num_threads) {}

  std::string name;
  Activations activations;
  KvType kv_type;
  const Loops& loops;
  ThreadTeam team;
  ThreadScratch scratch;
  WeightMemory weights;
};

}  // namespace redpoll::kernels::cpu
