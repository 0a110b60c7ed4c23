#include "cli/config_file.h"

#define TOML_HEADER_ONLY 1
#define TOML_EXCEPTIONS 0
#define TOML_ENABLE_FORMATTERS 0
#include <toml++/toml.h>

#include <algorithm>
#include <optional>
#include <utility>

#include "base/file.h"
#include "cli/suggestions.h"

namespace redpoll::cli {
namespace {

constexpr std::size_t kMaxFileBytes = 1U << 20U;

std::string_view kind_name(const toml::node& node) {
  switch (node.type()) {
    case toml::node_type::table: return "a table";
    case toml::node_type::array: return "a list";
    case toml::node_type::string: return "a string";
    case toml::node_type::integer:
    case toml::node_type::floating_point: return "a number";
    case toml::node_type::boolean: return "true or false";
    default: return "a date or time";
  }
}

std::string_view wanted(const Flag& flag) {
  if (flag.repeatable) return "a string or a list of strings";
  switch (flag.kind) {
    case FlagKind::kSwitch: return "true or false";
    case FlagKind::kNumber: return "a number";
    case FlagKind::kText: return "a string";
    case FlagKind::kWord: break;
  }
  return "a string or a number";
}

std::optional<std::string> text_of_number(const toml::node& node) {
  if (const auto* whole = node.as_integer()) return std::to_string(whole->get());
  if (const auto* number = node.as_floating_point()) return number_text(number->get());
  return std::nullopt;
}

// The value as a command line would have it; nullopt: of the wrong type.
std::optional<std::string> value_text(const Flag& flag, const toml::node& node) {
  switch (flag.kind) {
    case FlagKind::kText:
      if (const auto* text = node.as_string()) return text->get();
      break;
    case FlagKind::kSwitch:
      if (const auto* given = node.as_boolean()) return given->get() ? "true" : "false";
      break;
    case FlagKind::kNumber: return text_of_number(node);
    case FlagKind::kWord:
      if (const auto* text = node.as_string()) return text->get();
      return text_of_number(node);
  }
  return std::nullopt;
}

class SettingsReader {
 public:
  SettingsReader(std::string path, const FlagSet& flags) : path_(std::move(path)), flags_(flags) {}

  Result<std::vector<Assignment>> read(const toml::table& table) {
    // Keys come sorted by name; the first mistake in the file is the one to show.
    std::vector<std::pair<const toml::key*, const toml::node*>> entries;
    for (const auto& [key, node] : table) entries.emplace_back(&key, &node);
    std::ranges::sort(entries, {}, [](const auto& entry) { return line_of(*entry.first); });
    for (const auto& [key, node] : entries) RETURN_IF_ERROR(read_setting(*key, *node));
    return std::move(settings_);
  }

 private:
  static std::size_t line_of(const toml::key& key) { return key.source().begin.line; }

  Status read_setting(const toml::key& key, const toml::node& node) {
    const std::string name(key.str());
    const std::string where = path_ + ":" + std::to_string(line_of(key)) + ": ";
    const Flag* flag = flags_.find("--" + name);
    if (flag == nullptr || name == "config") return bad(where + unknown(name));
    if (const toml::array* list = flag->repeatable ? node.as_array() : nullptr; list != nullptr) {
      for (const toml::node& item : *list) RETURN_IF_ERROR(add(*flag, item, where + name));
      return {};
    }
    return add(*flag, node, where + name);
  }

  Status add(const Flag& flag, const toml::node& node, const std::string& source) {
    auto value = value_text(flag, node);
    if (!value) {
      return bad(source + ": expected " + std::string(wanted(flag)) + ", got " + std::string(kind_name(node)));
    }
    settings_.push_back({&flag, *std::move(value), source});
    return {};
  }

  [[nodiscard]] std::string unknown(const std::string& name) const {
    std::vector<std::string> names;
    for (const std::string& flag : flags_.names()) {
      if (flag != "--config") names.push_back(flag.substr(2));
    }
    return "there is no setting '" + name + "'" + did_you_mean(name, names);
  }

  static std::unexpected<Error> bad(std::string message) {
    return fail(ErrorCode::kInvalidArgument, std::move(message));
  }

  std::string path_;
  const FlagSet& flags_;
  std::vector<Assignment> settings_;
};

}  // namespace

Result<std::vector<Assignment>> read_config_file(const std::filesystem::path& path, const FlagSet& flags) {
  ASSIGN_OR_RETURN(const std::string text, read_file(path, kMaxFileBytes));
  const toml::parse_result parsed = toml::parse(text, path.string());
  if (!parsed) {
    const toml::parse_error& error = parsed.error();
    return fail(ErrorCode::kInvalidArgument, path.string() + ":" + std::to_string(error.source().begin.line) + ": " +
                                                 std::string(error.description()));
  }
  return SettingsReader(path.string(), flags).read(parsed.table());
}

}  // namespace redpoll::cli
