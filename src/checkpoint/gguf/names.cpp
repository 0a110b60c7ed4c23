#include "checkpoint/gguf/names.h"

#include <algorithm>
#include <array>

namespace redpoll::checkpoint {
namespace {

using Heads = HuggingFaceName::Heads;

constexpr std::array<GgufArchitecture, 3> kArchitectures = {{
    {"llama", "llama", "LlamaForCausalLM", true},
    {"qwen2", "qwen2", "Qwen2ForCausalLM", false},
    {"qwen3", "qwen3", "Qwen3ForCausalLM", false},
}};

struct NameRow {
  std::string_view gguf;
  std::string_view hugging_face;
  Heads heads = Heads::kNone;
};

constexpr std::array<NameRow, 3> kGlobalNames = {{
    {"token_embd", "model.embed_tokens"},
    {"output_norm", "model.norm"},
    {"output", "lm_head"},
}};

constexpr std::array<NameRow, 11> kLayerNames = {{
    {"attn_norm", "input_layernorm"},
    {"attn_q", "self_attn.q_proj", Heads::kQuery},
    {"attn_k", "self_attn.k_proj", Heads::kKey},
    {"attn_v", "self_attn.v_proj"},
    {"attn_output", "self_attn.o_proj"},
    {"attn_q_norm", "self_attn.q_norm"},
    {"attn_k_norm", "self_attn.k_norm"},
    {"ffn_norm", "post_attention_layernorm"},
    {"ffn_gate", "mlp.gate_proj"},
    {"ffn_up", "mlp.up_proj"},
    {"ffn_down", "mlp.down_proj"},
}};

// A layer's index as the converter writes it: without leading zeros, so that no two names mean the same parameter.
bool is_number(std::string_view text) {
  return !text.empty() && (text == "0" || text[0] != '0') && text.size() <= 5 &&
         text.find_first_not_of("0123456789") == std::string_view::npos;
}

}  // namespace

const GgufArchitecture* find_gguf_architecture(std::string_view name) {
  const auto found = std::ranges::find(kArchitectures, name, &GgufArchitecture::name);
  return found == kArchitectures.end() ? nullptr : &*found;
}

std::string known_gguf_architectures() {
  std::string text;
  for (const GgufArchitecture& row : kArchitectures) text += (text.empty() ? "" : ", ") + std::string(row.name);
  return text;
}

std::optional<HuggingFaceName> hugging_face_name(std::string_view gguf_name) {
  const std::size_t dot = gguf_name.rfind('.');
  if (dot == std::string_view::npos) return std::nullopt;
  const std::string_view suffix = gguf_name.substr(dot + 1);
  std::string_view stem = gguf_name.substr(0, dot);
  if (suffix != "weight" && suffix != "bias") return std::nullopt;

  const auto global = std::ranges::find(kGlobalNames, stem, &NameRow::gguf);
  if (global != kGlobalNames.end()) return HuggingFaceName{std::string(global->hugging_face), suffix, Heads::kNone};

  constexpr std::string_view kLayerPrefix = "blk.";
  if (!stem.starts_with(kLayerPrefix)) return std::nullopt;
  stem.remove_prefix(kLayerPrefix.size());
  const std::size_t end = stem.find('.');
  if (end == std::string_view::npos || !is_number(stem.substr(0, end))) return std::nullopt;
  const auto row = std::ranges::find(kLayerNames, stem.substr(end + 1), &NameRow::gguf);
  if (row == kLayerNames.end()) return std::nullopt;
  return HuggingFaceName{"model.layers." + std::string(stem.substr(0, end)) + "." + std::string(row->hugging_face),
                         suffix, row->heads};
}

}  // namespace redpoll::checkpoint
