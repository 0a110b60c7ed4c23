// The ModelLoader of a checkpoint, so that those above the engine can start one without seeing MLX.
#pragma once

#include "checkpoint/checkpoint.h"
#include "engine/engine.h"

namespace redpoll::engine {

/// Makes this machine's kernels and the checkpoint's model. The checkpoint is dropped as soon as the model is built,
/// whether that worked or not; mapped bytes that the model does not use are released with it. `num_threads`: for
/// kernels on a CPU; 0: one per physical core. With a `profile` its operations are measured.
[[nodiscard]] ModelLoader checkpoint_loader(checkpoint::Checkpoint checkpoint, int num_threads,
                                            std::shared_ptr<StepProfile> profile = nullptr);

}  // namespace redpoll::engine
