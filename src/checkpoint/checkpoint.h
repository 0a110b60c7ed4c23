// Checkpoint: a language model on disk as one value, whichever format it came in: a Hugging Face or MLX folder with
// safetensors, or one GGUF file. Opening maps the weights and parses everything around them; it runs no code from the
// folder, loads no module and touches no device. Not known here: what the model computes.
#pragma once

#include <filesystem>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "base/error.h"
#include "base/file.h"
#include "base/token.h"
#include "checkpoint/config.h"
#include "checkpoint/quantization.h"
#include "checkpoint/tensor.h"
#include "checkpoint/tokenizer_info.h"

namespace redpoll::checkpoint {

/// generation_config.json: the model author's sampling defaults. Absent fields are for the caller to fill.
struct GenerationDefaults {
  std::optional<bool> do_sample;  // false means greedy
  std::optional<double> temperature;
  std::optional<double> top_p;
  std::optional<int> top_k;
  std::optional<double> min_p;
  std::optional<double> typical_p;
  std::optional<double> repetition_penalty;
  std::optional<int> max_new_tokens;
  std::vector<TokenId> eos_token_ids;
};

/// Immutable once opened; copies share the weights.
struct Checkpoint {
  std::filesystem::path path;  // as given
  std::string source_format;   // "safetensors" or "gguf"
  std::string name;            // general.name of a GGUF file, else the folder's or file's name
  std::string license;         // as the file or the model card says, "" if unknown
  /// 64 hex digits that identify config, tensor names, shapes, types, file sizes and a sample of each file's bytes: a
  /// cheap identity for caches, not a proof against somebody who edits single weights in place.
  std::string fingerprint;

  Config config;
  QuantizationTable quantization;
  ParameterMap parameters;

  std::string tokenizer_json;  // the text of a Hugging Face tokenizer.json
  TokenizerInfo tokenizer;
  std::optional<std::string> chat_template;
  std::map<std::string, std::string> named_chat_templates;  // others beside the default, such as "tool_use"
  GenerationDefaults generation;
  std::vector<std::shared_ptr<const MappedFile>> files;  // that hold the weights
};

/// Opens a folder with config.json or a .gguf file. Maps the weights without reading them; a GGUF's quantized tensors
/// are repacked into MLX's affine layout when they are read. kNotFound lists near matches of the path; kCorruptFile for
/// files that contradict themselves; kUnsupported names what is not known.
[[nodiscard]] Result<Checkpoint> open_checkpoint(const std::filesystem::path& folder_or_gguf);

/// An identity of all bytes, where `fingerprint` is one of samples: reads everything, some gigabytes a second from
/// memory. For what would be silently wrong with weights that were changed a little.
[[nodiscard]] std::string identity_of_contents(const Checkpoint& checkpoint);

}  // namespace redpoll::checkpoint
