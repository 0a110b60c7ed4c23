// Names of tensors and architectures: GGUF's to Hugging Face's. Internal to checkpoint/.
#pragma once

#include <optional>
#include <string>
#include <string_view>

namespace redpoll::checkpoint {

struct GgufArchitecture {
  std::string_view name;        // general.architecture, and the prefix of its metadata keys
  std::string_view model_type;  // config.json's
  std::string_view class_name;  // config.json's `architectures`
  bool has_permuted_heads;      // query and key rows interleave the rotary halves
};

/// nullptr if not known.
[[nodiscard]] const GgufArchitecture* find_gguf_architecture(std::string_view name);
/// "llama, qwen2, qwen3", for messages.
[[nodiscard]] std::string known_gguf_architectures();

struct HuggingFaceName {
  std::string module;                                             // "model.layers.0.self_attn.q_proj"
  std::string_view suffix;                                        // "weight" or "bias"
  enum class Heads { kNone, kQuery, kKey } heads = Heads::kNone;  // whose rows are permuted in llama files
};

/// The name of "blk.0.attn_q.weight" and its like; nullopt for names that these architectures do not have.
[[nodiscard]] std::optional<HuggingFaceName> hugging_face_name(std::string_view gguf_name);

/// Rotary factors baked into a tensor: data of the config rather than a parameter.
constexpr std::string_view kRopeFactorsTensor = "rope_freqs.weight";

}  // namespace redpoll::checkpoint
