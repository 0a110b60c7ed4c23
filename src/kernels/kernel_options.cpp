#include "kernels/kernel_options.h"

#include <string>
#include <utility>

#include "kernels/cpu/features.h"

namespace redpoll::kernels {

Result<Activations> parse_activations(std::string_view name) {
  if (name == "float32") return Activations::kFloat32;
  if (name == "int16") return Activations::kInt16;
  if (name == "int8") return Activations::kInt8;
  return fail(ErrorCode::kInvalidArgument, "expected one of float32, int16, int8; got '" + std::string(name) + "'",
              "activations");
}

std::string_view activations_name(Activations activations) {
  switch (activations) {
    case Activations::kInt16: return "int16";
    case Activations::kInt8: return "int8";
    case Activations::kFloat32: break;
  }
  return "float32";
}

Result<KvType> parse_kv_type(std::string_view name) {
  if (name == "f16") return KvType::kF16;
  if (name == "f32") return KvType::kF32;
  return fail(ErrorCode::kInvalidArgument, "expected one of f16, f32; got '" + std::string(name) + "'", "kv");
}

Status check_options(const KernelOptions& options, bool on_cpu) {
  if (on_cpu) {
    if (auto variant = cpu::chosen_variant(); !variant) return std::unexpected(std::move(variant).error());
  }
  if (options.exact && options.activations) {
    return fail(ErrorCode::kInvalidArgument,
                "--activations says what our own kernels for CPUs compute in, and --exact computes in the checkpoint's "
                "types; leave one of them out",
                "activations");
  }
  const Activations activations = options.activations.value_or(Activations::kFloat32);
  if (on_cpu || activations == Activations::kFloat32) return {};
  return fail(ErrorCode::kInvalidArgument,
              "--activations " + std::string(activations_name(activations)) +
                  " is for computing on a CPU, and this machine computes on its GPU; leave it out",
              "activations");
}

}  // namespace redpoll::kernels
