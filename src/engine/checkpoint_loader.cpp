#include "engine/checkpoint_loader.h"

#include <utility>

#include "models/registry.h"

namespace redpoll::engine {

ModelLoader checkpoint_loader(checkpoint::Checkpoint checkpoint, const kernels::KernelOptions& options) {
  // std::function wants a copyable callable, and the loader gives the checkpoint up when it runs.
  auto holder = std::make_shared<checkpoint::Checkpoint>(std::move(checkpoint));
  return [holder, options]() -> Result<LoadedModel> {
    const checkpoint::Checkpoint taken = std::move(*holder);
    LoadedModel loaded;
    loaded.kernels = kernels::make_kernels(options);
    ASSIGN_OR_RETURN(loaded.model, models::make_model(taken, *loaded.kernels));
    return loaded;
  };
}

}  // namespace redpoll::engine
