#include "cli/flag_set.h"

#include <algorithm>

#include "base/utf8.h"

namespace redpoll::cli {

Flag& FlagSet::add(Flag flag) {
  CHECK(find(flag.name) == nullptr, "a verb has each flag once");
  flag.group = group_;
  return flags_.emplace_back(std::move(flag));
}

Flag& FlagSet::toggle(const std::string& name, bool& target, const std::string& description) {
  return add({.name = name,
              .kind = FlagKind::kSwitch,
              .description = description,
              .set = [&target](std::string_view value) -> Status {
                ASSIGN_OR_RETURN(target, parse_switch(value));
                return {};
              }});
}

Flag& FlagSet::list(const std::string& name, const std::string& value_name, std::vector<std::string>& target,
                    const std::string& description) {
  Flag& flag = add({.name = name,
                    .value_name = value_name,
                    .kind = FlagKind::kText,
                    .description = description,
                    .set = [&target](std::string_view value) -> Status {
                      RETURN_IF_ERROR(check_text(value));
                      target.emplace_back(value);
                      return {};
                    }});
  flag.repeatable = true;
  return flag;
}

void FlagSet::take_argument(const std::string& shown, const std::string& flag_name) {
  argument_ = find(flag_name);
  CHECK(argument_ != nullptr, "the argument's flag must be there first");
  argument_name_ = shown;
}

const Flag* FlagSet::find(std::string_view name) const {
  const auto found = std::ranges::find(flags_, name, &Flag::name);
  return found == flags_.end() ? nullptr : &*found;
}

std::vector<std::string> FlagSet::names() const {
  std::vector<std::string> names;
  for (const Flag& flag : flags_) names.push_back(flag.name);
  return names;
}

Status check_utf8(std::string_view text) {
  if (is_valid_utf8(text)) return {};
  return fail(ErrorCode::kInvalidArgument, "expected valid UTF-8, got " + shown_value(text));
}

Status check_text(std::string_view text) {
  if (text.empty()) return fail(ErrorCode::kInvalidArgument, "expected some text, got nothing");
  return check_utf8(text);
}

}  // namespace redpoll::cli
