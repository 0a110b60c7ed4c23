// The request fields that chat and completions share, with their ranges.
#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "api/generation.h"
#include "base/error.h"

namespace redpoll::api::openai {

/// The request as an object, or an Error that says what it is instead.
[[nodiscard]] Result<const json::object*> as_request_object(const json::value& body);

/// Reads everything in GenerationOptions but max_tokens and logprobs, whose meaning differs by route.
[[nodiscard]] Result<GenerationOptions> read_generation_options(JsonReader& reader, const RequestLimits& limits);

/// Fails when min_tokens exceeds max_tokens; call it when both are set.
[[nodiscard]] Status check_token_range(const GenerationOptions& options);

/// kUnsupported for each of `names` that is present, not null.
[[nodiscard]] Status refuse_fields(JsonReader& reader, const std::vector<std::string_view>& names);

/// kUnsupported: "'name' is not supported yet by this server".
[[nodiscard]] std::unexpected<Error> not_supported(const std::string& path);

/// kInvalidArgument: "'path': problem".
[[nodiscard]] std::unexpected<Error> bad_field(const std::string& path, const std::string& problem);

/// kInvalidArgument: "'path' is required".
[[nodiscard]] std::unexpected<Error> missing_field(const std::string& path);

/// A field that must be an object.
[[nodiscard]] Result<const json::object*> required_object(JsonReader& reader, std::string_view name);

/// "stop[2]".
[[nodiscard]] std::string element_path(std::string_view array_path, std::size_t index);

/// Token ids within the vocabulary. `value` is at `path`.
[[nodiscard]] Result<std::vector<TokenId>> read_token_ids(const json::array& value, const std::string& path,
                                                          const RequestLimits& limits);

}  // namespace redpoll::api::openai
