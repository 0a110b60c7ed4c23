#include "kernels/kernel_options.h"

#include <string>
#include <utility>

#include "kernels/cpu/features.h"

namespace redpoll::kernels {
namespace {

/// The groups that MLX has operations for.
Status check_mlx_group(int group_size, int head_dim) {
  const bool has_operations = group_size == 32 || group_size == 64 || group_size == 128;
  if (has_operations && head_dim % group_size == 0) return {};
  return fail(ErrorCode::kInvalidArgument,
              "expected a group_size of 32, 64 or 128 that divides the heads, which MLX can pack (--exact wants to), "
              "got " +
                  std::to_string(group_size) + "; the layer's heads are of " + std::to_string(head_dim),
              "group_size");
}

/// Codes of the exact tier have been compared with mlx-optiq's on CPUs alone.
Status check_exact_kv(const KernelOptions& options, bool on_cpu) {
  if (on_cpu || !options.exact || options.kv_quantization == KvQuantization::kOff) return {};
  return fail(ErrorCode::kInvalidArgument,
              "--exact with --kv-quant " + std::string(kv_quantization_name(options.kv_quantization)) +
                  " is for computing on a CPU, where its bits were compared, and this machine computes on its GPU; "
                  "leave one of them out",
              "kv-quant");
}

}  // namespace

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

Result<KvQuantization> parse_kv_quantization(std::string_view name) {
  if (name == "off") return KvQuantization::kOff;
  if (name == "8") return KvQuantization::k8;
  if (name == "4") return KvQuantization::k4;
  if (name == "config") return KvQuantization::kConfig;
  return fail(ErrorCode::kInvalidArgument, "expected one of off, 8, 4, config; got '" + std::string(name) + "'",
              "kv-quant");
}

std::string_view kv_quantization_name(KvQuantization quantization) {
  switch (quantization) {
    case KvQuantization::k8: return "8";
    case KvQuantization::k4: return "4";
    case KvQuantization::kConfig: return "config";
    case KvQuantization::kOff: break;
  }
  return "off";
}

Status check_exact(const KernelOptions& options) {
  if (!options.exact || !options.activations) return {};
  return fail(ErrorCode::kInvalidArgument,
              "--activations says what our own kernels for CPUs compute in, and --exact computes in the checkpoint's "
              "types; leave one of them out",
              "activations");
}

Status check_packing(const KvPacking& packing, int head_dim) {
  const std::string heads = "; the layer's heads are of " + std::to_string(head_dim);
  if (packing.bits != 4 && packing.bits != 8) {
    return fail(ErrorCode::kInvalidArgument, "expected bits of 4 or 8, got " + std::to_string(packing.bits), "bits");
  }
  if (packing.codes == KvCodes::kMlx) return check_mlx_group(packing.group_size, head_dim);
  const bool is_part = packing.group_size > 0 && packing.group_size % 32 == 0 && head_dim % packing.group_size == 0;
  if ((!is_part && packing.group_size != head_dim) || packing.group_size > kMaxKvGroup) {
    return fail(ErrorCode::kInvalidArgument,
                "expected a group_size of at most " + std::to_string(kMaxKvGroup) +
                    " that is a multiple of 32 and divides the heads, or is all of one, got " +
                    std::to_string(packing.group_size) + heads,
                "group_size");
  }
  if (packing.bits == 4 && head_dim % 2 != 0) {
    return fail(ErrorCode::kInvalidArgument, "expected heads of an even size, two codes of 4 bits to a byte" + heads,
                "bits");
  }
  return {};
}

Status check_options(const KernelOptions& options, bool on_cpu) {
  if (on_cpu) {
    if (auto variant = cpu::chosen_variant(); !variant) return std::unexpected(std::move(variant).error());
  }
  RETURN_IF_ERROR(check_exact(options));
  RETURN_IF_ERROR(check_exact_kv(options, on_cpu));
  const Activations activations = options.activations.value_or(Activations::kFloat32);
  if (on_cpu || activations == Activations::kFloat32) return {};
  return fail(ErrorCode::kInvalidArgument,
              "--activations " + std::string(activations_name(activations)) +
                  " is for computing on a CPU, and this machine computes on its GPU; leave it out",
              "activations");
}

}  // namespace redpoll::kernels
