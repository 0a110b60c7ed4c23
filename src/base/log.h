// Structured logging: one line per event, a message and named fields, as text or as JSON, on standard error.
// The library behind it (spdlog) appears in log.cpp only. All functions are safe from any thread.
#pragma once

#include <initializer_list>
#include <string>
#include <string_view>
#include <utility>

#include "base/error.h"

namespace redpoll {

enum class LogLevel { kTrace, kDebug, kInfo, kWarn, kError, kOff };
enum class LogFormat { kText, kJson };

struct LogOptions {
  LogLevel level = LogLevel::kInfo;
  LogFormat format = LogFormat::kText;
};

using LogField = std::pair<std::string_view, std::string>;

/// Sets level and format; without a call: info, text.
void configure_log(const LogOptions& options);

/// Accepts "trace", "debug", "info", "warn", "error", "off".
[[nodiscard]] Result<LogLevel> parse_log_level(std::string_view name);
[[nodiscard]] Result<LogFormat> parse_log_format(std::string_view name);

void log(LogLevel level, std::string_view message, std::initializer_list<LogField> fields = {});

inline void log_debug(std::string_view message, std::initializer_list<LogField> fields = {}) {
  log(LogLevel::kDebug, message, fields);
}
inline void log_info(std::string_view message, std::initializer_list<LogField> fields = {}) {
  log(LogLevel::kInfo, message, fields);
}
inline void log_warn(std::string_view message, std::initializer_list<LogField> fields = {}) {
  log(LogLevel::kWarn, message, fields);
}
inline void log_error(std::string_view message, std::initializer_list<LogField> fields = {}) {
  log(LogLevel::kError, message, fields);
}

}  // namespace redpoll
