// The ModelLoader of a checkpoint, so that those above the engine can start one without seeing MLX.
#pragma once

#include "checkpoint/checkpoint.h"
#include "engine/engine.h"
#include "kernels/kernel_options.h"

namespace redpoll::engine {

/// Whether LoadedModel::identity is found, for which all bytes of the weights are read.
enum class Identity { kNone, kOfContents };

/// Makes this machine's kernels and the checkpoint's model. The checkpoint is dropped as soon as the model is built,
/// whether that worked or not; mapped bytes that the model does not use are released with it. Options that would be
/// without effect, on this machine or for this checkpoint, are an Error.
[[nodiscard]] ModelLoader checkpoint_loader(checkpoint::Checkpoint checkpoint, const kernels::KernelOptions& options,
                                            Identity identity = Identity::kNone);

}  // namespace redpoll::engine
