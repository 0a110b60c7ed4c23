// Builders of model files for these tests: safetensors and GGUF bytes, right or wrong as asked, and a folder for them.
#pragma once

#include <cstdint>
#include <cstring>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "checkpoint/gguf/file.h"
#include "checkpoint/tensor.h"
#include "support/temporary_folder.h"

namespace redpoll::checkpoint::testing {

template <typename T>
std::string raw(const T& value) {
  std::string bytes(sizeof value, '\0');
  std::memcpy(bytes.data(), &value, sizeof value);
  return bytes;
}

inline std::span<const std::byte> as_bytes(std::string_view text) { return std::as_bytes(std::span(text)); }

/// Header length, header, data.
inline std::string safetensors(std::string_view header, std::string_view data) {
  return raw(std::uint64_t{header.size()}) + std::string(header) + std::string(data);
}

using test::TemporaryFolder;

/// Writes GGUF bytes piece by piece.
class GgufBuilder {
 public:
  enum Type : std::uint32_t { kU8, kI8, kU16, kI16, kU32, kI32, kF32, kBool, kString, kArray, kU64, kI64, kF64 };

  static std::string text(std::string_view value) { return raw(std::uint64_t{value.size()}) + std::string(value); }

  GgufBuilder& value(std::string_view key, std::uint32_t type, std::string_view bytes) {
    values_ += text(key) + raw(type) + std::string(bytes);
    ++num_values_;
    return *this;
  }
  GgufBuilder& u32(std::string_view key, std::uint32_t number) { return value(key, kU32, raw(number)); }
  GgufBuilder& f32(std::string_view key, float number) { return value(key, kF32, raw(number)); }
  GgufBuilder& boolean(std::string_view key, bool flag) { return value(key, kBool, raw(std::uint8_t{flag})); }
  GgufBuilder& string(std::string_view key, std::string_view content) { return value(key, kString, text(content)); }
  GgufBuilder& strings(std::string_view key, const std::vector<std::string>& contents) {
    std::string bytes = raw(std::uint32_t{kString}) + raw(std::uint64_t{contents.size()});
    for (const std::string& content : contents) bytes += text(content);
    return value(key, kArray, bytes);
  }
  template <typename T>
  GgufBuilder& numbers(std::string_view key, std::uint32_t type, const std::vector<T>& numbers) {
    std::string bytes = raw(type) + raw(std::uint64_t{numbers.size()});
    for (const T number : numbers) bytes += raw(number);
    return value(key, kArray, bytes);
  }
  /// Dimensions as the file has them, fastest first. The data follows the tensors before it, aligned to 32.
  GgufBuilder& tensor(std::string_view name, const std::vector<std::uint64_t>& dimensions, GgufType type,
                      std::string_view data) {
    data_.resize((data_.size() + 31) / 32 * 32);
    tensor_at(name, dimensions, static_cast<std::uint32_t>(type), data_.size());
    data_ += data;
    return *this;
  }
  GgufBuilder& tensor_at(std::string_view name, const std::vector<std::uint64_t>& dimensions, std::uint32_t type,
                         std::uint64_t offset) {
    tensors_ += text(name) + raw(static_cast<std::uint32_t>(dimensions.size()));
    for (const std::uint64_t dimension : dimensions) tensors_ += raw(dimension);
    tensors_ += raw(type) + raw(offset);
    ++num_tensors_;
    return *this;
  }
  GgufBuilder& extra_data(std::string_view data) {
    data_ += data;
    return *this;
  }
  [[nodiscard]] std::string build(std::uint32_t version = 3) const {
    std::string file = "GGUF" + raw(version) + raw(num_tensors_) + raw(num_values_) + values_ + tensors_;
    file.resize((file.size() + 31) / 32 * 32);
    return file + data_;
  }

 private:
  std::uint64_t num_values_ = 0;
  std::uint64_t num_tensors_ = 0;
  std::string values_, tensors_, data_;
};

inline Result<GgufFile> parse_gguf(std::string_view bytes) {
  return GgufFile::parse(as_bytes(bytes), nullptr, "m.gguf");
}

inline std::string floats(std::size_t count, float value = 0.5F) {
  std::string bytes;
  for (std::size_t i = 0; i < count; ++i) bytes += raw(value);
  return bytes;
}

/// A whole llama of one layer, hidden 8, two heads of 4, one of them for keys, with a vocabulary of four tokens.
inline GgufBuilder tiny_llama() {
  GgufBuilder builder;
  builder.string("general.architecture", "llama")
      .u32("llama.block_count", 1)
      .u32("llama.context_length", 64)
      .u32("llama.embedding_length", 8)
      .u32("llama.feed_forward_length", 4)
      .u32("llama.attention.head_count", 2)
      .u32("llama.attention.head_count_kv", 1)
      .f32("llama.attention.layer_norm_rms_epsilon", 1e-5F)
      .string("tokenizer.ggml.model", "gpt2")
      .string("tokenizer.ggml.pre", "smollm")
      .strings("tokenizer.ggml.tokens", {"a", "b", "ab", "<|im_end|>"})
      .numbers<std::int32_t>("tokenizer.ggml.token_type", GgufBuilder::kI32, {1, 1, 1, 3})
      .strings("tokenizer.ggml.merges", {"a b"})
      .u32("tokenizer.ggml.eos_token_id", 3);
  builder.tensor("token_embd.weight", {8, 4}, GgufType::kF32, floats(32))
      .tensor("output_norm.weight", {8}, GgufType::kF32, floats(8))
      .tensor("blk.0.attn_norm.weight", {8}, GgufType::kF32, floats(8))
      .tensor("blk.0.ffn_norm.weight", {8}, GgufType::kF32, floats(8))
      .tensor("blk.0.attn_q.weight", {8, 8}, GgufType::kF32, floats(64))
      .tensor("blk.0.attn_k.weight", {8, 4}, GgufType::kF32, floats(32))
      .tensor("blk.0.attn_v.weight", {8, 4}, GgufType::kF32, floats(32))
      .tensor("blk.0.attn_output.weight", {8, 8}, GgufType::kF32, floats(64))
      .tensor("blk.0.ffn_gate.weight", {8, 4}, GgufType::kF32, floats(32))
      .tensor("blk.0.ffn_up.weight", {8, 4}, GgufType::kF32, floats(32))
      .tensor("blk.0.ffn_down.weight", {4, 8}, GgufType::kF32, floats(32));
  return builder;
}

}  // namespace redpoll::checkpoint::testing
