#include "engine/checkpoint_loader.h"

#include <mlx/device.h>

#include <algorithm>
#include <optional>
#include <string>
#include <string_view>
#include <utility>

#include "engine/kv_floats.h"
#include "engine/numerics_identity.h"
#include "kernels/device_info.h"
#include "models/registry.h"
#include "nn/kv_packing.h"

namespace redpoll::engine {

namespace mx = mlx::core;

namespace {

/// An Error if somebody wants activations rounded and no weight of the checkpoint would ever see a rounded one.
Status check_activations(const checkpoint::Checkpoint& checkpoint, std::optional<kernels::Activations> wanted) {
  const kernels::Activations activations = wanted.value_or(kernels::Activations::kFloat32);
  if (activations == kernels::Activations::kFloat32) return {};
  constexpr std::string_view kScales = ".scales";  // beside the weight of a quantized module
  const bool is_any_rounded = std::ranges::any_of(checkpoint.parameters.names(), [&](std::string_view name) {
    if (!name.ends_with(kScales)) return false;
    const auto spec = checkpoint.quantization.spec_for(name.substr(0, name.size() - kScales.size()));
    return spec && kernels::activations_met(activations, spec->bits, spec->group_size) == activations;
  });
  if (is_any_rounded) return {};
  return fail(ErrorCode::kInvalidArgument,
              "--activations " + std::string(kernels::activations_name(activations)) +
                  " is for weights of 4 or 8 bits" +
                  (activations == kernels::Activations::kInt8 ? " in groups of 32 or more" : "") +
                  ", and this model has none; leave it out",
              "activations");
}

/// The options that change bits.
std::string identity_of(const kernels::KernelOptions& options) {
  std::string identity = options.kv_type == kernels::KvType::kF16 ? "f16" : "f32";
  if (options.activations) identity += " " + std::string(kernels::activations_name(*options.activations));
  return identity;
}

std::string identity_of(const std::vector<kernels::KvPacking>& packings) {
  std::string identity;
  for (const kernels::KvPacking& packing : packings) {
    identity += " " + std::to_string(packing.bits) + "/" + std::to_string(packing.group_size);
  }
  return identity;
}

}  // namespace

ModelLoader checkpoint_loader(checkpoint::Checkpoint checkpoint, const kernels::KernelOptions& options,
                              Identity identity) {
  // std::function wants a copyable callable, and the loader gives the checkpoint up when it runs.
  auto holder = std::make_shared<checkpoint::Checkpoint>(std::move(checkpoint));
  return [holder, options, identity]() -> Result<LoadedModel> {
    const checkpoint::Checkpoint taken = std::move(*holder);
    RETURN_IF_ERROR(kernels::check_options(options, mx::default_device() == mx::Device::cpu));
    RETURN_IF_ERROR(check_activations(taken, options.activations));
    LoadedModel loaded;
    const std::string contents = identity == Identity::kOfContents ? identity_of_contents(taken) : "";
    loaded.kernels = kernels::make_kernels(options);
    ASSIGN_OR_RETURN(loaded.model, models::make_model(taken, *loaded.kernels));
    ASSIGN_OR_RETURN(loaded.kv_packings, nn::kv_packings(options, loaded.model->info().layers, taken));
    loaded.kv_floats = kv_floats(*loaded.model, *loaded.kernels);
    if (identity == Identity::kOfContents) {
      loaded.identity = contents + " " + std::string(loaded.kernels->name()) + " on " + kernels::device_identity() +
                        " " + identity_of(options) + identity_of(loaded.kv_packings) + " redpoll " + REDPOLL_VERSION +
                        " numerics " + std::string(numerics_identity());
    }
    return loaded;
  };
}

}  // namespace redpoll::engine
