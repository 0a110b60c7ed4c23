#include "checkpoint/gguf/config_writer.h"

#include <algorithm>
#include <charconv>
#include <optional>

namespace redpoll::checkpoint {
namespace {

constexpr std::int64_t kMaxCount = std::int64_t{1} << 31;

}  // namespace

double as_written(double stored) {
  char buffer[32];
  const auto end = std::to_chars(buffer, buffer + sizeof buffer, static_cast<float>(stored)).ptr;
  double value = stored;
  std::from_chars(buffer, end, value);
  return value;
}

template <typename Value>
std::optional<Value> ConfigWriter::keep_error(Result<std::optional<Value>> value) {
  if (value) return *value;
  fail_with(std::unexpected(std::move(value).error()));
  return std::nullopt;
}

std::optional<std::int64_t> ConfigWriter::integer(std::string_view key) {
  return keep_error(file_.integer(full(key), 0, kMaxCount));
}

std::optional<double> ConfigWriter::number(std::string_view key) {
  const std::optional<double> stored = keep_error(file_.real(full(key)));
  return stored ? std::optional(as_written(*stored)) : std::nullopt;
}

void ConfigWriter::count(std::string_view key, std::string_view field, Need need) {
  if (const auto value = integer(key)) {
    config_[field] = *value;
  } else if (need == Need::kRequired) {
    miss(key);
  }
}

void ConfigWriter::real(std::string_view key, std::string_view field, Need need) {
  if (const auto value = number(key)) {
    config_[field] = *value;
  } else if (need == Need::kRequired) {
    miss(key);
  }
}

void ConfigWriter::fail_with(std::unexpected<Error> error) {
  if (status_) status_ = std::move(error);
}

void ConfigWriter::miss(std::string_view key) {
  fail_with(fail(ErrorCode::kCorruptFile, file_.name() + ": metadata '" + full(key) + "' is missing", full(key)));
}

std::int64_t ConfigWriter::written(std::string_view field) const {
  const json::value* value = config_.if_contains(field);
  return value != nullptr && value->is_int64() ? value->get_int64() : 0;
}

const GgufTensor* ConfigWriter::tensor(std::string_view name) const {
  const auto found = std::ranges::find(file_.tensors(), name, &GgufTensor::name);
  return found == file_.tensors().end() ? nullptr : &*found;
}

std::optional<json::array> ConfigWriter::floats(std::string_view name) {
  const GgufTensor* stored = tensor(name);
  if (stored == nullptr) return std::nullopt;
  if (stored->type != static_cast<std::uint32_t>(GgufType::kF32) || stored->shape.size() != 1) {
    fail_with(fail(ErrorCode::kCorruptFile, file_.name() + ": '" + std::string(name) + "' must be a vector of F32"));
    return std::nullopt;
  }
  json::array values;
  for (std::size_t i = 0; i < stored->bytes.size(); i += sizeof(float)) {
    float value = 0;
    std::copy_n(stored->bytes.data() + i, sizeof value, reinterpret_cast<std::byte*>(&value));
    values.emplace_back(static_cast<double>(value));
  }
  return values;
}

Result<json::object> ConfigWriter::finish() && {
  if (!status_) return std::unexpected(status_.error());
  return std::move(config_);
}

}  // namespace redpoll::checkpoint
