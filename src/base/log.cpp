#include "base/log.h"

#include <spdlog/sinks/stdout_color_sinks.h>
#include <spdlog/spdlog.h>

#include <atomic>
#include <mutex>

#include "base/json.h"
#include "base/text.h"
#include "base/utf8.h"

namespace redpoll {
namespace {

constexpr std::string_view kLevelNames[] = {"trace", "debug", "info", "warn", "error", "off"};

spdlog::level::level_enum to_spdlog(LogLevel level) {
  constexpr spdlog::level::level_enum kLevels[] = {spdlog::level::trace, spdlog::level::debug, spdlog::level::info,
                                                   spdlog::level::warn,  spdlog::level::err,   spdlog::level::off};
  return kLevels[static_cast<int>(level)];
}

std::atomic<LogFormat> log_format = LogFormat::kText;

void apply_pattern(spdlog::logger& logger, LogFormat format) {
  // In JSON the message is itself the tail of an object, so the pattern supplies only its head.
  logger.set_pattern(format == LogFormat::kJson ? R"({"time":"%Y-%m-%dT%H:%M:%S.%e%z","level":"%l",%v})"
                                                : "%Y-%m-%d %H:%M:%S.%e %^%-5l%$ %v");
}

spdlog::logger& logger() {
  static const std::shared_ptr<spdlog::logger> instance = [] {
    auto created = std::make_shared<spdlog::logger>("redpoll", std::make_shared<spdlog::sinks::stderr_color_sink_mt>());
    apply_pattern(*created, LogFormat::kText);
    created->flush_on(spdlog::level::info);
    return created;
  }();
  return *instance;
}

// A field's value, in quotes where it could be mistaken for something else.
std::string field_value(std::string_view value) {
  std::string text = printable(value);
  if (!text.empty() && text.find_first_of(" \"=") == std::string::npos) return text;
  for (std::size_t at = 0; (at = text.find('"', at)) != std::string::npos; at += 2) text.insert(at, 1, '\\');
  return '"' + text + '"';
}

std::string format_text(std::string_view message, std::initializer_list<LogField> fields) {
  std::string line = printable(message);
  for (const auto& [name, value] : fields) {
    line += ' ';
    line += name;
    line += '=';
    line += field_value(value);
  }
  return line;
}

std::string format_json(std::string_view message, std::initializer_list<LogField> fields) {
  json::object object;
  object["message"] = replace_invalid_utf8(message);
  for (const auto& [name, value] : fields) object[name] = replace_invalid_utf8(value);
  const std::string text = dump_json(object);
  return text.substr(1, text.size() - 2);  // the pattern supplies the braces
}

}  // namespace

void configure_log(const LogOptions& options) {
  log_format = options.format;
  apply_pattern(logger(), options.format);
  logger().set_level(to_spdlog(options.level));
}

Result<LogLevel> parse_log_level(std::string_view name) {
  for (int i = 0; i < 6; ++i) {
    if (name == kLevelNames[i]) return static_cast<LogLevel>(i);
  }
  return fail(ErrorCode::kInvalidArgument,
              "expected one of trace, debug, info, warn, error, off; got '" + std::string(name) + "'", "log-level");
}

Result<LogFormat> parse_log_format(std::string_view name) {
  if (name == "text") return LogFormat::kText;
  if (name == "json") return LogFormat::kJson;
  return fail(ErrorCode::kInvalidArgument, "expected text or json; got '" + std::string(name) + "'", "log-format");
}

void log(LogLevel level, std::string_view message, std::initializer_list<LogField> fields) {
  if (!logger().should_log(to_spdlog(level))) return;
  logger().log(to_spdlog(level), spdlog::string_view_t(log_format == LogFormat::kJson ? format_json(message, fields)
                                                                                      : format_text(message, fields)));
}

}  // namespace redpoll
