#include "engine/checkpoint_loader.h"

#include <mlx/device.h>

#include <utility>

#include "models/registry.h"

namespace redpoll::engine {

namespace mx = mlx::core;

ModelLoader checkpoint_loader(checkpoint::Checkpoint checkpoint, const kernels::KernelOptions& options) {
  // std::function wants a copyable callable, and the loader gives the checkpoint up when it runs.
  auto holder = std::make_shared<checkpoint::Checkpoint>(std::move(checkpoint));
  return [holder, options]() -> Result<LoadedModel> {
    const checkpoint::Checkpoint taken = std::move(*holder);
    RETURN_IF_ERROR(kernels::check_options(options, mx::default_device() == mx::Device::cpu));
    LoadedModel loaded;
    loaded.kernels = kernels::make_kernels(options);
    ASSIGN_OR_RETURN(loaded.model, models::make_model(taken, *loaded.kernels));
    return loaded;
  };
}

}  // namespace redpoll::engine
