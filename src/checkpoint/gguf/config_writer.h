// ConfigWriter: metadata of one GGUF architecture on its way into a config.json. Internal to checkpoint/.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <utility>

#include "base/json.h"
#include "checkpoint/gguf/file.h"

namespace redpoll::checkpoint {

/// The double that prints like the float does: metadata keeps 1e-5 as 9.99999974e-06.
[[nodiscard]] double as_written(double stored);

/// Copies fields and keeps the first error.
class ConfigWriter {
 public:
  /// Keys without a prefix are the architecture's own.
  ConfigWriter(const GgufFile& file, std::string_view architecture) : file_(file), prefix_(architecture) {}

  enum class Need { kRequired, kOptional };

  void count(std::string_view key, std::string_view field, Need need);
  void real(std::string_view key, std::string_view field, Need need);
  void set(std::string_view field, json::value value) { config_[field] = std::move(value); }
  void fail_with(std::unexpected<Error> error);

  /// What has been written of a number; 0 if nothing.
  [[nodiscard]] std::int64_t written(std::string_view field) const;
  /// Metadata that is no field of its own; absent, or an error that is kept: nullopt.
  [[nodiscard]] std::optional<std::int64_t> integer(std::string_view key);
  [[nodiscard]] std::optional<double> number(std::string_view key);
  /// A vector of F32; nullopt if the file has none, or something else, which is kept as an error.
  [[nodiscard]] std::optional<json::array> floats(std::string_view tensor);
  /// nullptr if the file has none.
  [[nodiscard]] const GgufTensor* tensor(std::string_view name) const;

  [[nodiscard]] std::string full(std::string_view key) const { return prefix_ + "." + std::string(key); }
  [[nodiscard]] const GgufFile& file() const { return file_; }
  [[nodiscard]] const json::object& config() const { return config_; }
  [[nodiscard]] Result<json::object> finish() &&;

 private:
  template <typename Value>
  [[nodiscard]] std::optional<Value> keep_error(Result<std::optional<Value>> value);
  void miss(std::string_view key);

  const GgufFile& file_;
  std::string prefix_;
  json::object config_;
  Status status_;
};

/// The fields that an architecture has beside those of all: see GgufArchitecture::write_own.
void write_gemma3(ConfigWriter& writer);
void write_gpt_oss(ConfigWriter& writer);
void write_phi3(ConfigWriter& writer);
void write_qwen3_moe(ConfigWriter& writer);

}  // namespace redpoll::checkpoint
