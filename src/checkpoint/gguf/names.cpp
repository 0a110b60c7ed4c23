#include "checkpoint/gguf/names.h"

#include <algorithm>
#include <array>

#include "checkpoint/gguf/config_writer.h"

namespace redpoll::checkpoint {
namespace {

using Row = GgufNameRow;

constexpr std::array<Row, 3> kGlobalNames = {{
    {"token_embd", "model.embed_tokens"},
    {"output_norm", "model.norm"},
    {"output", "lm_head"},
}};

constexpr std::array<Row, 11> kLayerNames = {{
    {"attn_norm", "input_layernorm"},
    {"attn_q", "self_attn.q_proj", GgufHeads::kQuery},
    {"attn_k", "self_attn.k_proj", GgufHeads::kKey},
    {"attn_v", "self_attn.v_proj"},
    {"attn_output", "self_attn.o_proj"},
    {"attn_q_norm", "self_attn.q_norm"},
    {"attn_k_norm", "self_attn.k_norm"},
    {"ffn_norm", "post_attention_layernorm"},
    {"ffn_gate", "mlp.gate_proj"},
    {"ffn_up", "mlp.up_proj"},
    {"ffn_down", "mlp.down_proj"},
}};

constexpr std::array<Row, 3> kGemma3Names = {{
    {"post_attention_norm", "post_attention_layernorm"},
    {"ffn_norm", "pre_feedforward_layernorm"},
    {"post_ffw_norm", "post_feedforward_layernorm"},
}};

constexpr std::array<Row, 2> kPhi3Names = {{
    {"attn_qkv", "self_attn.qkv_proj"},
    {"ffn_up", "mlp.gate_up_proj"},
}};

constexpr std::array<Row, 4> kQwen3MoeNames = {{
    {"ffn_gate_inp", "mlp.gate"},
    {"ffn_gate_exps", "mlp.switch_mlp.gate_proj"},
    {"ffn_up_exps", "mlp.switch_mlp.up_proj"},
    {"ffn_down_exps", "mlp.switch_mlp.down_proj"},
}};

constexpr std::array<Row, 6> kGptOssNames = {{
    {.gguf = "attn_sinks", .hugging_face = "self_attn.sinks", .is_bare = true},
    {"post_attention_norm", "post_attention_layernorm"},
    {"ffn_gate_inp", "mlp.router"},
    {"ffn_gate_exps", "mlp.experts.gate_proj"},
    {"ffn_up_exps", "mlp.experts.up_proj"},
    {"ffn_down_exps", "mlp.experts.down_proj"},
}};

constexpr std::array<GgufArchitecture, 7> kArchitectures = {{
    {"gemma3", "gemma3_text", "Gemma3ForCausalLM", false, kGemma3Names, write_gemma3},
    {"gpt-oss", "gpt_oss", "GptOssForCausalLM", false, kGptOssNames, write_gpt_oss},
    {"llama", "llama", "LlamaForCausalLM", true},
    {"phi3", "phi3", "Phi3ForCausalLM", false, kPhi3Names, write_phi3, true},
    {"qwen2", "qwen2", "Qwen2ForCausalLM"},
    {"qwen3", "qwen3", "Qwen3ForCausalLM"},
    {"qwen3moe", "qwen3_moe", "Qwen3MoeForCausalLM", false, kQwen3MoeNames, write_qwen3_moe},
}};

const Row* find_row(std::span<const Row> rows, std::string_view gguf) {
  const auto found = std::ranges::find(rows, gguf, &Row::gguf);
  return found == rows.end() ? nullptr : &*found;
}

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

std::optional<HuggingFaceName> hugging_face_name(std::string_view gguf_name, const GgufArchitecture& architecture) {
  const std::size_t dot = gguf_name.rfind('.');
  if (dot == std::string_view::npos) return std::nullopt;
  const std::string_view suffix = gguf_name.substr(dot + 1);
  std::string_view stem = gguf_name.substr(0, dot);
  if (suffix != "weight" && suffix != "bias") return std::nullopt;
  if (const Row* global = find_row(kGlobalNames, stem)) {
    return HuggingFaceName{.module = std::string(global->hugging_face), .suffix = suffix};
  }

  constexpr std::string_view kLayerPrefix = "blk.";
  if (!stem.starts_with(kLayerPrefix)) return std::nullopt;
  stem.remove_prefix(kLayerPrefix.size());
  const std::size_t end = stem.find('.');
  if (end == std::string_view::npos || !is_number(stem.substr(0, end))) return std::nullopt;
  const std::string_view part = stem.substr(end + 1);
  const Row* row = find_row(architecture.own_names, part);
  if (row == nullptr) row = find_row(kLayerNames, part);
  if (row == nullptr || (row->is_bare && suffix != "weight")) return std::nullopt;
  return HuggingFaceName{
      .module = "model.layers." + std::string(stem.substr(0, end)) + "." + std::string(row->hugging_face),
      .suffix = row->is_bare ? "" : suffix,
      .heads = row->heads};
}

}  // namespace redpoll::checkpoint
