#include "engine/checkpoint_loader.h"

#include <utility>

#include "engine/step_profile.h"
#include "models/registry.h"

namespace redpoll::engine {

ModelLoader checkpoint_loader(checkpoint::Checkpoint checkpoint, int num_threads,
                              std::shared_ptr<StepProfile> profile) {
  // std::function wants a copyable callable, and the loader gives the checkpoint up when it runs.
  auto holder = std::make_shared<checkpoint::Checkpoint>(std::move(checkpoint));
  return [holder, num_threads, profile = std::move(profile)]() -> Result<LoadedModel> {
    const checkpoint::Checkpoint taken = std::move(*holder);
    LoadedModel loaded;
    loaded.kernels =
        kernels::make_kernels({.num_threads = num_threads, .profile = profile ? profile->kernels() : nullptr});
    ASSIGN_OR_RETURN(loaded.model, models::make_model(taken, *loaded.kernels));
    return loaded;
  };
}

}  // namespace redpoll::engine
