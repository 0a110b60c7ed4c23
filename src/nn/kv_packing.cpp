#include "nn/kv_packing.h"

#include <string>
#include <utility>

#include "checkpoint/kv_config.h"

namespace redpoll::nn {
namespace {

using kernels::KvCodes;
using kernels::KvPacking;
using Packings = std::vector<KvPacking>;

std::unexpected<Error> refused(const std::string& where, const Error& why) {
  return fail(ErrorCode::kInvalidArgument, "--kv-quant " + where + ": " + why.message, "kv-quant");
}

Status check_layer(const KvPacking& packing, const cache::LayerCache& layer) {
  RETURN_IF_ERROR(kernels::check_packing(packing, layer.head_dim));
  if (packing.codes == KvCodes::kOwn || layer.softcap == 0) return {};
  return fail(ErrorCode::kInvalidArgument,
              "expected scores over keys that are not capped: mlx-lm, whose bits --exact gives, caps none over packed "
              "keys",
              "layer_idx");
}

/// `like` says bits and codes.
Result<Packings> pack_all(const KvPacking& like, std::span<const cache::LayerCache> layers) {
  Packings packings(layers.size());
  for (std::size_t i = 0; i < packings.size(); ++i) {
    const cache::LayerCache& layer = layers[i];
    if (layer.kind != cache::CacheKind::kAttention) continue;
    packings[i] = like;
    packings[i].group_size = kernels::usual_kv_group(layer.head_dim);
    if (const Status fits = check_layer(packings[i], layer); !fits) {
      return refused(std::to_string(like.bits) + ": layer " + std::to_string(i), fits.error());
    }
  }
  return packings;
}

Result<Packings> pack_listed(KvCodes codes, std::span<const cache::LayerCache> layers,
                             const checkpoint::Checkpoint& checkpoint) {
  const auto entries = checkpoint::read_kv_config(checkpoint.path);
  if (!entries) {
    const Error& error = entries.error();
    return fail(error.code, "--kv-quant config: " + error.message, "kv-quant");
  }
  const std::string file = "config: " + (checkpoint.path / "kv_config.json").string() + ": ";
  Packings packings(layers.size());
  for (std::size_t i = 0; i < entries->size(); ++i) {
    const checkpoint::KvConfigEntry& entry = (*entries)[i];
    const std::string field = "'[" + std::to_string(i) + "].";
    const auto layer = static_cast<std::size_t>(entry.layer);
    if (layer >= layers.size() || layers[layer].kind != cache::CacheKind::kAttention) {
      return refused(file + field + "layer_idx'",
                     {ErrorCode::kInvalidArgument,
                      "expected one of the model's " + std::to_string(layers.size()) +
                          " layers, from 0 on, that has keys and values of its own, got " + std::to_string(entry.layer),
                      {}});
    }
    packings[layer] = {.bits = entry.bits, .group_size = entry.group_size, .codes = codes};
    if (const Status fits = check_layer(packings[layer], layers[layer]); !fits) {
      return refused(file + field + fits.error().param + "'", fits.error());
    }
  }
  return packings;
}

}  // namespace

Result<Packings> kv_packings(const kernels::KernelOptions& options, std::span<const cache::LayerCache> layers,
                             const checkpoint::Checkpoint& checkpoint) {
  const KvCodes codes = options.exact ? KvCodes::kMlx : KvCodes::kOwn;
  switch (options.kv_quantization) {
    case kernels::KvQuantization::k8: return pack_all({.bits = 8, .codes = codes}, layers);
    case kernels::KvQuantization::k4: return pack_all({.bits = 4, .codes = codes}, layers);
    case kernels::KvQuantization::kConfig: return pack_listed(codes, layers, checkpoint);
    case kernels::KvQuantization::kOff: break;
  }
  return Packings(layers.size());
}

}  // namespace redpoll::nn
