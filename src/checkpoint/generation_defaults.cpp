// generation_config.json, and the licence in the model card.
#include "base/file.h"
#include "checkpoint/tokenizer_files.h"

namespace redpoll::checkpoint {
namespace {

namespace fs = std::filesystem;

Result<GenerationDefaults> parse_defaults(const json::object& object) {
  JsonReader reader(object);
  GenerationDefaults defaults;
  ASSIGN_OR_RETURN(defaults.do_sample, reader.optional_bool("do_sample"));
  ASSIGN_OR_RETURN(defaults.temperature, reader.optional_double("temperature", 0, 100));
  ASSIGN_OR_RETURN(defaults.top_p, reader.optional_double("top_p", 0, 1));
  ASSIGN_OR_RETURN(const auto top_k, reader.optional_int("top_k", -1, 1 << 30));
  if (top_k) defaults.top_k = static_cast<int>(std::max<std::int64_t>(0, *top_k));  // -1 also means "off"
  ASSIGN_OR_RETURN(defaults.min_p, reader.optional_double("min_p", 0, 1));
  ASSIGN_OR_RETURN(defaults.typical_p, reader.optional_double("typical_p", 0, 1));
  ASSIGN_OR_RETURN(defaults.repetition_penalty, reader.optional_double("repetition_penalty", 1e-3, 100));
  ASSIGN_OR_RETURN(const auto max_new_tokens, reader.optional_int("max_new_tokens", 1, 1 << 30));
  if (max_new_tokens) defaults.max_new_tokens = static_cast<int>(*max_new_tokens);
  ASSIGN_OR_RETURN(defaults.eos_token_ids, parse_token_ids(object, "eos_token_id"));
  return defaults;
}

std::string_view trim(std::string_view text) {
  constexpr std::string_view kSpace = " \t\r\"'";
  const std::size_t begin = text.find_first_not_of(kSpace);
  if (begin == std::string_view::npos) return {};
  return text.substr(begin, text.find_last_not_of(kSpace) - begin + 1);
}

}  // namespace

Result<GenerationDefaults> read_generation_defaults(const fs::path& folder) {
  const fs::path path = folder / "generation_config.json";
  ASSIGN_OR_RETURN(const auto object, read_json_file(path));
  if (!object) return GenerationDefaults{};
  auto defaults = parse_defaults(*object);
  if (!defaults) return in_file(path, std::move(defaults).error());
  return defaults;
}

std::string read_license(const fs::path& folder) {
  constexpr std::string_view kField = "license:";
  const auto card = read_file(folder / "README.md", 10'000'000);
  if (!card) return {};
  std::string_view rest = *card;
  for (bool is_first = true; !rest.empty(); is_first = false) {
    const std::size_t end = std::min(rest.find('\n'), rest.size());
    const std::string_view line = rest.substr(0, end);
    rest.remove_prefix(std::min(end + 1, rest.size()));
    const bool is_fence = trim(line) == "---";
    if (is_first != is_fence) return {};  // no front matter, or its end
    if (line.starts_with(kField)) return std::string(trim(line.substr(kField.size())));
  }
  return {};
}

}  // namespace redpoll::checkpoint
