// What a GGUF file says about a model, in Hugging Face's words: config.json's fields and parameter names. Internal to
// checkpoint/. Architectures: llama (Llama, Mistral, SmolLM2), qwen2, qwen3.
#pragma once

#include "base/error.h"
#include "base/json.h"
#include "checkpoint/config.h"
#include "checkpoint/gguf/file.h"
#include "checkpoint/tensor.h"

namespace redpoll::checkpoint {

/// A config.json as the original model's, as far as the metadata tells, with MLX's `quantization` block for the tensors
/// that stay quantized and `rope_freq_factors` for a file that bakes rotary scaling into a tensor. kUnsupported names
/// an architecture that is not known; kCorruptFile a metadata value that is missing.
[[nodiscard]] Result<json::object> read_gguf_config(const GgufFile& file);

/// The tensors under Hugging Face names, quantized ones as weight, scales and biases in MLX's affine layout. Those are
/// converted when they are read, large ones on all cores, and once for the three if they are read one after the other:
/// the last ones stay in memory. kUnsupported names the tensor and type that cannot be read.
[[nodiscard]] Result<ParameterMap> read_gguf_parameters(const GgufFile& file, const Config& config);

}  // namespace redpoll::checkpoint
