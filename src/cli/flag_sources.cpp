#include "cli/flag_sources.h"

#include <algorithm>
#include <cstdlib>
#include <optional>

#include "cli/suggestions.h"

namespace redpoll::cli {
namespace {

std::unexpected<Error> usage(std::string message) { return fail(ErrorCode::kInvalidArgument, std::move(message)); }

bool has_value(const std::vector<Assignment>& assignments, const Flag& flag) {
  return std::ranges::any_of(assignments, [&](const Assignment& given) { return given.flag == &flag; });
}

class ArgumentReader {
 public:
  ArgumentReader(const FlagSet& flags, std::span<const std::string> arguments) : flags_(flags), rest_(arguments) {}

  Result<Arguments> read() {
    bool only_arguments = false;
    while (!rest_.empty()) {
      const std::string& word = next();
      if (only_arguments || word == "-" || !word.starts_with('-')) {
        RETURN_IF_ERROR(read_argument(word));
      } else if (word == "--") {
        only_arguments = true;
      } else if (word == "-h" || word == "--help") {
        out_.help = true;
        return std::move(out_);
      } else {
        RETURN_IF_ERROR(read_flag(word));
      }
    }
    return check_argument_once();
  }

 private:
  const std::string& next() {
    const std::string& word = rest_.front();
    rest_ = rest_.subspan(1);
    return word;
  }

  Status read_argument(const std::string& word) {
    if (flags_.argument() == nullptr || argument_) return usage("unexpected argument '" + word + "'");
    argument_ = word;
    out_.assignments.push_back({flags_.argument(), word, flags_.argument_name()});
    return {};
  }

  Status read_flag(const std::string& word) {
    const std::size_t equals = word.find('=');
    const std::string name = word.substr(0, equals);
    const Flag* flag = flags_.find(name);
    if (flag == nullptr) return usage("there is no flag '" + name + "'" + did_you_mean(name, flags_.names()));
    if (equals != std::string::npos) {
      out_.assignments.push_back({flag, word.substr(equals + 1), name});
    } else if (flag->kind == FlagKind::kSwitch) {
      out_.assignments.push_back({flag, "true", name});
    } else if (rest_.empty() || is_flag(rest_.front())) {
      std::string message = name + " needs a value: " + name + " " + flag->value_name;
      if (!rest_.empty() && (flag->kind == FlagKind::kText || flag->kind == FlagKind::kWord)) {
        message += "; if '" + rest_.front() + "' is meant, write " + name + "=" + rest_.front();
      }
      return usage(std::move(message));
    } else {
      out_.assignments.push_back({flag, next(), name});
    }
    return {};
  }

  [[nodiscard]] bool is_flag(const std::string& word) const {
    return word == "-h" || word == "--help" || flags_.find(word.substr(0, word.find('='))) != nullptr;
  }

  // An argument and its flag at once are more likely a mistake than a correction.
  Result<Arguments> check_argument_once() {
    for (const Assignment& given : out_.assignments) {
      if (argument_ && given.flag == flags_.argument() && given.source == given.flag->name) {
        return usage(flags_.argument_name() + " is given twice: as '" + *argument_ + "' and as " + given.source + " '" +
                     given.value + "'");
      }
    }
    return std::move(out_);
  }

  const FlagSet& flags_;
  std::span<const std::string> rest_;
  std::optional<std::string> argument_;
  Arguments out_;
};

}  // namespace

Result<Arguments> read_arguments(const FlagSet& flags, std::span<const std::string> arguments) {
  return ArgumentReader(flags, arguments).read();
}

std::string environment_name(std::string_view flag) {
  std::string name = "REDPOLL_";
  for (const char c : flag.substr(std::min(flag.find_first_not_of('-'), flag.size()))) {
    name += c == '-' ? '_' : c >= 'a' && c <= 'z' ? static_cast<char>(c - 'a' + 'A') : c;
  }
  return name;
}

void add_environment(const FlagSet& flags, std::vector<Assignment>& assignments) {
  for (const Flag& flag : flags.flags()) {
    const std::string name = environment_name(flag.name);
    const char* value = std::getenv(name.c_str());
    if (value == nullptr || *value == '\0' || has_value(assignments, flag)) continue;
    assignments.push_back({&flag, value, name});
  }
}

void add_settings(std::vector<Assignment> settings, std::vector<Assignment>& assignments) {
  std::erase_if(settings, [&](const Assignment& setting) { return has_value(assignments, *setting.flag); });
  std::ranges::move(settings, std::back_inserter(assignments));
}

Status assign(const std::vector<Assignment>& assignments) {
  for (const Assignment& given : assignments) {
    if (const Status status = given.flag->set(given.value); !status) {
      return usage(given.source + ": " + status.error().message);
    }
  }
  return {};
}

}  // namespace redpoll::cli
