#include "api/openai/request_fields.h"

#include <algorithm>
#include <charconv>
#include <limits>

#include "base/text.h"

namespace redpoll::api::openai {
namespace {

constexpr int kMaxInt = std::numeric_limits<int>::max();
constexpr std::size_t kMaxStopStrings = 16;
constexpr std::size_t kMaxDryBreakers = 64;
// Every choice keeps a table over each stop string, so a longer one would cost far more memory than its body.
constexpr std::size_t kMaxStringBytes = 4096;

// OpenAI allows top_p 0 and means the most likely token. To samplers that test "0 < p < 1" it would mean off, so it
// becomes a mass that no second token fits in and that float32 still tells from nothing in 1 - p.
constexpr float kLeastMass = 1e-6F;

struct FloatField {
  std::string_view name;
  std::optional<float> SamplingOverrides::* member;
  double min;
  double max;
};
constexpr FloatField kFloatFields[] = {
    {"temperature", &SamplingOverrides::temperature, 0, 2},
    {"top_p", &SamplingOverrides::top_p, 0, 1},
    {"min_p", &SamplingOverrides::min_p, 0, 1},
    {"typical_p", &SamplingOverrides::typical_p, 0, 1},
    {"xtc_probability", &SamplingOverrides::xtc_probability, 0, 1},
    {"xtc_threshold", &SamplingOverrides::xtc_threshold, 0, 1},
    {"repetition_penalty", &SamplingOverrides::repetition_penalty, 0.01, 10},
    {"presence_penalty", &SamplingOverrides::presence_penalty, -2, 2},
    {"frequency_penalty", &SamplingOverrides::frequency_penalty, -2, 2},
    {"dry_multiplier", &SamplingOverrides::dry_multiplier, 0, 100},
    {"dry_base", &SamplingOverrides::dry_base, 1, 100},
};

struct IntField {
  std::string_view name;
  std::optional<int> SamplingOverrides::* member;
  int min;
  int max;
};
constexpr IntField kIntFields[] = {
    {"top_k", &SamplingOverrides::top_k, -1, kMaxInt},
    {"repetition_context_size", &SamplingOverrides::repetition_context_size, 0, kMaxInt},
    {"dry_allowed_length", &SamplingOverrides::dry_allowed_length, 1, kMaxInt},
};

Result<std::string> read_short_string(const json::value& value, const std::string& path) {
  if (!value.is_string()) return bad_field(path, "expected a string, got " + std::string(json_kind_name(value)));
  const json::string& text = value.get_string();
  if (text.empty()) return bad_field(path, "expected a string that is not empty");
  if (text.size() > kMaxStringBytes) {
    return bad_field(path, "expected a string of at most " + std::to_string(kMaxStringBytes) + " bytes, got " +
                               std::to_string(text.size()));
  }
  return std::string(text);
}

Result<std::vector<std::string>> read_strings(const json::array& value, const std::string& path) {
  std::vector<std::string> strings;
  strings.reserve(value.size());
  for (const json::value& element : value) {
    ASSIGN_OR_RETURN(std::string text, read_short_string(element, element_path(path, strings.size())));
    strings.push_back(std::move(text));
  }
  return strings;
}

Result<std::vector<std::string>> read_stop(JsonReader& reader) {
  const json::value* stop = reader.optional_value("stop");
  const std::string path = reader.path_of("stop");
  if (stop == nullptr) return std::vector<std::string>{};
  if (stop->is_string()) {
    ASSIGN_OR_RETURN(std::string text, read_short_string(*stop, path));
    return std::vector<std::string>{std::move(text)};
  }
  if (!stop->is_array()) {
    return bad_field(path, "expected a string or an array of strings, got " + std::string(json_kind_name(*stop)));
  }
  if (stop->get_array().size() > kMaxStopStrings) {
    return bad_field(path, "expected at most " + std::to_string(kMaxStopStrings) + " strings, got " +
                               std::to_string(stop->get_array().size()));
  }
  return read_strings(stop->get_array(), path);
}

std::string id_range(const RequestLimits& limits) {
  return limits.vocab_size > 0 ? "from 0 to " + std::to_string(limits.vocab_size - 1) : "of at least 0";
}

bool is_token_id(std::int64_t number, const RequestLimits& limits) {
  return number >= 0 && number < (limits.vocab_size > 0 ? limits.vocab_size : std::int64_t{kMaxInt} + 1);
}

// Only the usual spelling, so that "1" and "01" cannot name one token twice.
std::optional<TokenId> parse_token_id(std::string_view text, const RequestLimits& limits) {
  std::int64_t number = -1;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), number);
  if (error != std::errc{} || std::to_string(number) != text || !is_token_id(number, limits)) return std::nullopt;
  return static_cast<TokenId>(number);
}

Result<std::vector<std::pair<TokenId, float>>> read_logit_bias(JsonReader& reader, const RequestLimits& limits) {
  std::vector<std::pair<TokenId, float>> biases;
  ASSIGN_OR_RETURN(const json::object* object, reader.optional_object("logit_bias"));
  if (object == nullptr) return biases;
  const std::string path = reader.path_of("logit_bias");
  JsonReader bias_reader(*object, path);
  biases.reserve(object->size());
  for (const auto& member : *object) {
    const std::optional<TokenId> id = parse_token_id(member.key(), limits);
    if (!id) {
      return bad_field(path, "expected token ids " + id_range(limits) + " as keys, got " + in_quotes(member.key()));
    }
    ASSIGN_OR_RETURN(const std::optional<double> bias, bias_reader.optional_double(member.key(), -100, 100));
    if (!bias) return bad_field(bias_reader.path_of(member.key()), "expected a number, got null");
    biases.emplace_back(*id, static_cast<float>(*bias));
  }
  std::ranges::sort(biases, {}, &std::pair<TokenId, float>::first);
  return biases;
}

Result<SamplingOverrides> read_sampling(JsonReader& reader, const RequestLimits& limits) {
  SamplingOverrides sampling;
  for (const FloatField& field : kFloatFields) {
    ASSIGN_OR_RETURN(const std::optional<double> value, reader.optional_double(field.name, field.min, field.max));
    if (value) sampling.*field.member = static_cast<float>(*value);
  }
  for (const IntField& field : kIntFields) {
    ASSIGN_OR_RETURN(const std::optional<std::int64_t> value, reader.optional_int(field.name, field.min, field.max));
    if (value) sampling.*field.member = static_cast<int>(*value);
  }
  if (sampling.top_p) sampling.top_p = std::max(*sampling.top_p, kLeastMass);
  if (sampling.typical_p) sampling.typical_p = std::max(*sampling.typical_p, kLeastMass);
  if (sampling.top_k) sampling.top_k = std::max(*sampling.top_k, 0);  // -1 is another usual way to say off

  ASSIGN_OR_RETURN(const json::array* breakers, reader.optional_array("dry_sequence_breakers"));
  if (breakers != nullptr) {
    const std::string path = reader.path_of("dry_sequence_breakers");
    if (breakers->size() > kMaxDryBreakers) {
      return bad_field(path, "expected at most " + std::to_string(kMaxDryBreakers) + " strings, got " +
                                 std::to_string(breakers->size()));
    }
    ASSIGN_OR_RETURN(sampling.dry_sequence_breakers, read_strings(*breakers, path));
  }
  ASSIGN_OR_RETURN(sampling.logit_bias, read_logit_bias(reader, limits));
  ASSIGN_OR_RETURN(
      const std::optional<std::int64_t> seed,
      reader.optional_int("seed", std::numeric_limits<std::int64_t>::min(), std::numeric_limits<std::int64_t>::max()));
  if (seed) sampling.seed = static_cast<std::uint64_t>(*seed);
  return sampling;
}

Status read_stream_options(JsonReader& reader, GenerationOptions& options) {
  ASSIGN_OR_RETURN(const json::object* object, reader.optional_object("stream_options"));
  if (object == nullptr) return {};
  if (!options.stream) {
    return bad_field(reader.path_of("stream_options"), "allowed only when 'stream' is true");
  }
  JsonReader stream_reader(*object, reader.path_of("stream_options"));
  ASSIGN_OR_RETURN(const std::optional<bool> include_usage, stream_reader.optional_bool("include_usage"));
  options.include_usage = include_usage.value_or(false);
  stream_reader.ignore("include_obfuscation");  // padding against eavesdroppers of a hosted service
  reader.note_unread(stream_reader);
  return {};
}

}  // namespace

std::unexpected<Error> not_supported(const std::string& path) {
  return fail(ErrorCode::kUnsupported, "'" + path + "' is not supported yet by this server", path);
}

std::unexpected<Error> bad_field(const std::string& path, const std::string& problem) {
  return fail(ErrorCode::kInvalidArgument, "'" + path + "': " + problem, path);
}

std::unexpected<Error> missing_field(const std::string& path) {
  return fail(ErrorCode::kInvalidArgument, "'" + path + "' is required", path);
}

Result<const json::object*> required_object(JsonReader& reader, std::string_view name) {
  ASSIGN_OR_RETURN(const json::object* object, reader.optional_object(name));
  if (object == nullptr) return missing_field(reader.path_of(name));
  return object;
}

std::string element_path(std::string_view array_path, std::size_t index) {
  return std::string(array_path) + '[' + std::to_string(index) + ']';
}

Result<const json::object*> as_request_object(const json::value& body) {
  if (body.is_object()) return &body.get_object();
  return fail(ErrorCode::kInvalidArgument,
              "expected a JSON object as the request, got " + std::string(json_kind_name(body)));
}

Result<std::vector<TokenId>> read_token_ids(const json::array& value, const std::string& path,
                                            const RequestLimits& limits) {
  std::vector<TokenId> ids;
  ids.reserve(value.size());
  for (const json::value& element : value) {
    if (!element.is_int64() || !is_token_id(element.get_int64(), limits)) {
      return bad_field(element_path(path, ids.size()),
                       "expected a token id " + id_range(limits) + ", got " +
                           (element.is_number() ? dump_json(element) : std::string(json_kind_name(element))));
    }
    ids.push_back(static_cast<TokenId>(element.get_int64()));
  }
  return ids;
}

Status refuse_fields(JsonReader& reader, const std::vector<std::string_view>& names) {
  for (const std::string_view name : names) {
    if (reader.optional_value(name) != nullptr) return not_supported(reader.path_of(name));
  }
  return {};
}

Result<GenerationOptions> read_generation_options(JsonReader& reader, const RequestLimits& limits) {
  GenerationOptions options;
  ASSIGN_OR_RETURN(options.sampling, read_sampling(reader, limits));
  ASSIGN_OR_RETURN(options.stop, read_stop(reader));
  ASSIGN_OR_RETURN(const std::optional<std::int64_t> min_tokens, reader.optional_int("min_tokens", 0, kMaxInt));
  ASSIGN_OR_RETURN(const std::optional<bool> ignore_eos, reader.optional_bool("ignore_eos"));
  ASSIGN_OR_RETURN(const std::optional<std::int64_t> n, reader.optional_int("n", 1, kMaxInt));
  if (n.value_or(1) > limits.max_choices) {
    return bad_field(reader.path_of("n"),
                     "expected at most " + std::to_string(limits.max_choices) + ", got " + std::to_string(*n));
  }
  ASSIGN_OR_RETURN(const std::optional<bool> token_ids, reader.optional_bool("return_token_ids"));
  ASSIGN_OR_RETURN(const std::optional<std::int64_t> priority,
                   reader.optional_int("priority", std::numeric_limits<int>::min(), kMaxInt));
  ASSIGN_OR_RETURN(const std::optional<bool> stream, reader.optional_bool("stream"));
  options.min_tokens = static_cast<int>(min_tokens.value_or(0));
  options.ignore_eos = ignore_eos.value_or(false);
  options.num_choices = static_cast<int>(n.value_or(1));
  options.return_token_ids = token_ids.value_or(false);
  options.priority = static_cast<int>(priority.value_or(0));
  options.stream = stream.value_or(false);
  RETURN_IF_ERROR(read_stream_options(reader, options));
  return options;
}

Status check_token_range(const GenerationOptions& options) {
  if (!options.max_tokens || options.min_tokens <= *options.max_tokens) return {};
  return bad_field("min_tokens", "expected at most max_tokens, which is " + std::to_string(*options.max_tokens) +
                                     ", got " + std::to_string(options.min_tokens));
}

}  // namespace redpoll::api::openai
