// FlagSet: what one verb can be told, as data: names, ranges, where values go and what --help says. Where values come
// from is the business of flag_sources.h.
#pragma once

#include <deque>
#include <functional>
#include <optional>
#include <string>
#include <string_view>
#include <type_traits>
#include <vector>

#include "cli/flag_values.h"

namespace redpoll::cli {

/// What a settings file must give: true or false, a number, a string, or a word, which may be a number: either of them.
enum class FlagKind { kSwitch, kNumber, kText, kWord };

struct Flag {
  std::string name;             // "--max-batch"
  std::string value_name = {};  // "N" in help; empty for a switch
  FlagKind kind = FlagKind::kText;
  std::string description;
  /// Takes one value. Its messages say expected and got, without the flag's name.
  std::function<Status(std::string_view)> set;

  std::string group = {};         // the heading it stands under in help
  std::string default_text = {};  // what holds without it, in help; empty: nothing to say
  bool repeatable = false;        // every value counts; otherwise the last

  Flag& or_else(std::string text) {
    default_text = std::move(text);
    return *this;
  }
};

namespace internal {
template <typename T>
struct ValueOf {
  using Type = T;
};
template <typename T>
struct ValueOf<std::optional<T>> {
  using Type = T;
};
/// For std::optional<float> and float alike: float.
template <typename T>
using ValueType = typename ValueOf<T>::Type;
}  // namespace internal

/// Flags in the order in which help shows them. Targets must outlive it; references to flags stay valid. A target may
/// be a std::optional, which then stays absent unless the flag is given.
class FlagSet {
 public:
  /// The heading for the flags that follow.
  void group(std::string title) { group_ = std::move(title); }

  Flag& add(Flag flag);
  /// Valid UTF-8 that is not empty.
  template <typename T>
  Flag& text(const std::string& name, const std::string& value_name, T& target, const std::string& description);
  /// Valid UTF-8, maybe empty.
  template <typename T>
  Flag& any_text(const std::string& name, const std::string& value_name, T& target, const std::string& description);
  /// Whole numbers; what the target holds now is the default that help shows.
  template <typename T>
  Flag& whole(const std::string& name, T& target, WholeRange range, const std::string& description);
  template <typename T>
  Flag& number(const std::string& name, T& target, Range range, const std::string& description);
  /// Without a value; `--name=false` takes it back.
  Flag& toggle(const std::string& name, bool& target, const std::string& description);
  /// May be repeated; empty values are refused.
  Flag& list(const std::string& name, const std::string& value_name, std::vector<std::string>& target,
             const std::string& description);

  /// An argument without a flag is the value of this one. `shown` stands for it in help: "MODEL".
  void take_argument(const std::string& shown, const std::string& flag_name);

  [[nodiscard]] const std::deque<Flag>& flags() const { return flags_; }
  [[nodiscard]] const Flag* find(std::string_view name) const;
  [[nodiscard]] const Flag* argument() const { return argument_; }  // nullptr: there is none
  [[nodiscard]] const std::string& argument_name() const { return argument_name_; }
  [[nodiscard]] std::vector<std::string> names() const;

 private:
  std::deque<Flag> flags_;
  std::string group_ = "Flags";
  const Flag* argument_ = nullptr;
  std::string argument_name_;
};

/// An Error unless `text` is valid UTF-8; check_text also refuses an empty one.
[[nodiscard]] Status check_utf8(std::string_view text);
[[nodiscard]] Status check_text(std::string_view text);

template <typename T>
Flag& FlagSet::text(const std::string& name, const std::string& value_name, T& target, const std::string& description) {
  return add({.name = name,
              .value_name = value_name,
              .kind = FlagKind::kText,
              .description = description,
              .set = [&target](std::string_view value) -> Status {
                RETURN_IF_ERROR(check_text(value));
                target = std::string(value);
                return {};
              }});
}

template <typename T>
Flag& FlagSet::any_text(const std::string& name, const std::string& value_name, T& target,
                        const std::string& description) {
  Flag& flag = text(name, value_name, target, description);
  flag.set = [&target](std::string_view value) -> Status {
    RETURN_IF_ERROR(check_utf8(value));
    target = std::string(value);
    return {};
  };
  return flag;
}

template <typename T>
Flag& FlagSet::whole(const std::string& name, T& target, WholeRange range, const std::string& description) {
  Flag& flag = add({.name = name,
                    .value_name = "N",
                    .kind = FlagKind::kNumber,
                    .description = description,
                    .set = [&target, range](std::string_view value) -> Status {
                      ASSIGN_OR_RETURN(const std::int64_t number, parse_whole(value, range));
                      target = static_cast<internal::ValueType<T>>(number);
                      return {};
                    }});
  if constexpr (std::is_integral_v<T>) flag.default_text = std::to_string(target);
  return flag;
}

template <typename T>
Flag& FlagSet::number(const std::string& name, T& target, Range range, const std::string& description) {
  return add({.name = name,
              .value_name = "X",
              .kind = FlagKind::kNumber,
              .description = description,
              .set = [&target, range](std::string_view value) -> Status {
                ASSIGN_OR_RETURN(const double number, parse_number(value, range));
                target = static_cast<internal::ValueType<T>>(number);
                return {};
              }});
}

}  // namespace redpoll::cli
