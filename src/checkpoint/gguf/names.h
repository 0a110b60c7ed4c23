// Names of tensors and architectures: GGUF's to Hugging Face's. Internal to checkpoint/.
#pragma once

#include <optional>
#include <span>
#include <string>
#include <string_view>

namespace redpoll::checkpoint {

class ConfigWriter;

/// Of llama files, whose rows are permuted.
enum class GgufHeads { kNone, kQuery, kKey };

/// "attn_q" is "self_attn.q_proj".
struct GgufNameRow {
  std::string_view gguf;
  std::string_view hugging_face;
  GgufHeads heads = GgufHeads::kNone;
  bool is_bare = false;  // its Hugging Face name has no ".weight"
};

struct GgufArchitecture {
  std::string_view name;                              // general.architecture, and the prefix of its metadata keys
  std::string_view model_type;                        // config.json's
  std::string_view class_name;                        // config.json's `architectures`
  bool has_permuted_heads = false;                    // query and key rows interleave the rotary halves
  std::span<const GgufNameRow> own_names = {};        // of layers, where they differ from those that most have
  void (*write_own)(ConfigWriter& writer) = nullptr;  // fields that others lack
  bool rotates_parts = false;                         // of heads
};

/// nullptr if not known.
[[nodiscard]] const GgufArchitecture* find_gguf_architecture(std::string_view name);
/// "llama, qwen2, qwen3", for messages.
[[nodiscard]] std::string known_gguf_architectures();

struct HuggingFaceName {
  std::string module;       // "model.layers.0.self_attn.q_proj"
  std::string_view suffix;  // "weight", "bias" or ""
  GgufHeads heads = GgufHeads::kNone;

  [[nodiscard]] std::string full() const { return suffix.empty() ? module : module + "." + std::string(suffix); }
};

/// The name of "blk.0.attn_q.weight" and its like; nullopt for names that the architecture does not have.
[[nodiscard]] std::optional<HuggingFaceName> hugging_face_name(std::string_view gguf_name,
                                                               const GgufArchitecture& architecture);

/// Rotary factors baked into tensors: data of the config rather than parameters.
constexpr std::string_view kRopeFactorsTensor = "rope_freqs.weight";
constexpr std::string_view kShortFactorsTensor = "rope_factors_short.weight";
constexpr std::string_view kLongFactorsTensor = "rope_factors_long.weight";

}  // namespace redpoll::checkpoint
