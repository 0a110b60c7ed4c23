#include "cli/help_text.h"

#include <algorithm>

#include "cli/flag_sources.h"

namespace redpoll::cli {
namespace {

constexpr std::size_t kLineWidth = 100;
constexpr std::size_t kIndent = 2;
constexpr std::size_t kGap = 2;  // between the columns

std::string left_column(const Flag& flag, const FlagSet& flags) {
  const std::string name = flag.name + (flag.value_name.empty() ? "" : " " + flag.value_name);
  return &flag == flags.argument() ? flags.argument_name() + " or " + name : name;
}

std::string right_column(const Flag& flag) {
  std::string text = flag.description;
  if (flag.repeatable) text += "; may be repeated";
  if (!flag.default_text.empty()) text += " (" + flag.default_text + ")";
  return text;
}

// One row: `left`, then `right` from column `column` on, broken between words.
std::string row(std::string_view left, std::string_view right, std::size_t column) {
  std::string text = std::string(kIndent, ' ') + std::string(left);
  std::size_t length = text.size();
  text.append(column - length, ' ');
  length = column;
  while (!right.empty()) {
    const std::string_view word = right.substr(0, right.find(' '));
    if (length > column && length + 1 + word.size() > kLineWidth) {
      text += '\n' + std::string(column, ' ');
      length = column;
    }
    if (length > column) text += ' ';
    length += word.size() + (length > column ? 1 : 0);
    text += word;
    right.remove_prefix(std::min(word.size() + 1, right.size()));
  }
  return text + '\n';
}

std::string verb_rows(const VerbList& verbs) {
  std::size_t widest = 0;
  for (const auto& [name, summary] : verbs) widest = std::max(widest, name.size());
  std::string text = "Verbs\n";
  for (const auto& [name, summary] : verbs) text += row(name, summary, kIndent + widest + kGap);
  return text + '\n';
}

}  // namespace

std::string verb_help(std::string_view verb, std::string_view summary, const FlagSet& flags) {
  std::string text = std::string(summary) + "\n\nusage: redpoll " + std::string(verb);
  if (flags.argument() != nullptr) text += " [" + flags.argument_name() + "]";
  text += " [flags]\n";
  const std::string help_flag = "-h, --help";
  std::size_t widest = help_flag.size();
  for (const Flag& flag : flags.flags()) widest = std::max(widest, left_column(flag, flags).size());
  const std::size_t column = kIndent + widest + kGap;
  std::string group;
  for (const Flag& flag : flags.flags()) {
    if (flag.group != group) text += "\n" + flag.group + "\n";
    group = flag.group;
    text += row(left_column(flag, flags), right_column(flag), column);
  }
  text += "\n" + row(help_flag, "Print this and leave", column);
  if (flags.flags().empty()) return text;
  // One with a dash inside shows more.
  const auto dashed = std::ranges::find_if(flags.flags(), [](const Flag& f) { return f.name.rfind('-') > 1; });
  const std::string& example = dashed == flags.flags().end() ? flags.flags().back().name : dashed->name;
  return text + "\nAny flag may also be given in the environment (" + environment_name(example) + " is " + example +
         ").\nThe command line wins.\n";
}

std::string program_help(const VerbList& verbs) {
  return "Serves language models on this machine over the APIs that tools already speak.\n\n"
         "usage: redpoll [verb] [flags]\n\n" +
         verb_rows(verbs) +
         "Without a verb: serve. `redpoll VERB --help` lists a verb's flags.\n"
         "Exit codes: 0 fine, 1 failed, 2 wrong usage, 130 interrupted by Ctrl-C.\n";
}

std::string group_help(std::string_view word, const VerbList& verbs) {
  const std::string start = "redpoll " + std::string(word);
  return "usage: " + start + " VERB [flags]\n\n" + verb_rows(verbs) + "`" + start +
         " VERB --help` lists a verb's flags.\n";
}

}  // namespace redpoll::cli
