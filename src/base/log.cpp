#include "base/log.h"

#include <spdlog/sinks/stdout_color_sinks.h>
#include <spdlog/spdlog.h>

#include <atomic>
#include <mutex>

#include "base/json.h"

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

// One event stays one line whatever a client put into a field.
std::string escape_line_breaks(std::string_view text) {
  std::string out;
  out.reserve(text.size());
  for (char c : text) {
    if (c == '\n') out += "\\n";
    else if (c == '\r') out += "\\r";
    else out += c;
  }
  return out;
}

std::string format_text(std::string_view message, std::initializer_list<LogField> fields) {
  std::string line = escape_line_breaks(message);
  for (const auto& [name, value] : fields) {
    line += ' ';
    line += name;
    line += '=';
    line += value.find(' ') == std::string::npos ? escape_line_breaks(value) : '"' + escape_line_breaks(value) + '"';
  }
  return line;
}

std::string format_json(std::string_view message, std::initializer_list<LogField> fields) {
  json::object object;
  object["message"] = message;
  for (const auto& [name, value] : fields) object[name] = value;
  const std::string text = dump_json(object);
  return text.substr(1, text.size() - 2);
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
