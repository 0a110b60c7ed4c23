#include "server/prepare.h"

#include <algorithm>
#include <limits>

#include "api/openai/completions.h"
#include "base/log.h"
#include "base/text.h"
#include "engine/context_limit.h"
#include "server/sampling.h"
#include "server/stable_prefix.h"

namespace redpoll::server {
namespace {

/// What an answer repeats of its prompt; where each token begins is needed beside logprobs and takes longer to find.
enum class Echo { kNone, kText, kTextAndOffsets };

Result<PreparedGeneration> with_sampling(const ServedModel& model, const SamplingDefaults& flags,
                                         const api::GenerationOptions& options, int default_max_tokens) {
  PreparedGeneration prepared;
  prepared.options = options;
  prepared.max_tokens = options.max_tokens.value_or(flags.max_tokens.value_or(default_max_tokens));
  ASSIGN_OR_RETURN(prepared.sampling, resolve_sampling(options.sampling, flags, model.generation, *model.tokenizer));
  return prepared;
}

// Tokenizing megabytes takes seconds, so a text that cannot fit, whatever its tokens are, is refused before.
Status check_length(const ServedModel& model, std::string_view text) {
  const std::size_t least = model.tokenizer->least_tokens(text);
  if (least <= static_cast<std::size_t>(model.context.tokens)) return {};
  return std::unexpected(engine::context_length_exceeded(model.context, least, "at least " + std::to_string(least)));
}

Result<PreparedPrompt> prepare_text(const ServedModel& model, const std::string& text, Echo echo) {
  RETURN_IF_ERROR(check_length(model, text));
  PreparedPrompt prepared;
  if (echo != Echo::kNone) prepared.echo_text = text;
  if (echo != Echo::kTextAndOffsets) {
    ASSIGN_OR_RETURN(prepared.ids, model.tokenizer->encode(text, {.add_special_tokens = true}));
    return prepared;
  }
  ASSIGN_OR_RETURN(text::LocatedIds located, model.tokenizer->encode_located(text, {.add_special_tokens = true}));
  prepared.ids = std::move(located.ids);
  prepared.echo_begins = std::move(located.begins);
  return prepared;
}

Result<PreparedPrompt> prepare_ids(const ServedModel& model, const std::vector<TokenId>& ids, Echo echo) {
  PreparedPrompt prepared;
  prepared.ids = ids;
  if (echo == Echo::kNone) return prepared;
  ASSIGN_OR_RETURN(text::LocatedText located, model.tokenizer->decode_located(ids));
  prepared.echo_text = std::move(located.text);
  prepared.echo_begins = std::move(located.begins);
  return prepared;
}

Result<PreparedPrompt> prepare_prompt(const ServedModel& model, const api::CompletionPrompt& prompt, Echo echo) {
  if (const auto* text = std::get_if<std::string>(&prompt)) return prepare_text(model, *text, echo);
  return prepare_ids(model, std::get<std::vector<TokenId>>(prompt), echo);
}

// How the answer's tool calls are to be read. Nothing: it is all text, because no tools are shown or because how this
// model writes calls is not known.
Result<std::optional<text::ToolCallOptions>> read_tool_calls(const ServedModel& model,
                                                             const api::Conversation& conversation) {
  if (conversation.tools.empty()) return std::nullopt;
  const std::optional<text::ToolCallFormat> format = model.chat_template->tool_call_format();
  if (!format) {
    if (conversation.parallel_tool_calls) return std::nullopt;
    return fail(ErrorCode::kUnsupported,
                "'parallel_tool_calls': false needs a model whose tool calls can be read; the chat template of '" +
                    model.id + "' shows none of the known formats",
                "parallel_tool_calls");
  }
  text::ToolCallOptions options{.format = *format,
                                .tools = std::make_shared<const text::ToolSchemas>(conversation.tools)};
  if (!conversation.parallel_tool_calls) options.max_calls = 1;
  return options;
}

Result<std::string> render_with(const json::array& tools, const ServedModel& model,
                                const api::Conversation& conversation) {
  return model.chat_template->render({.messages = conversation.messages,
                                      .tools = tools,
                                      .add_generation_prompt = conversation.add_generation_prompt,
                                      .kwargs = conversation.chat_template_kwargs});
}

/// Tools that are tried when a template fails, each of which costs a short rendering.
constexpr std::size_t kMaxTriedTools = 128;

/// Templates say what they fail at, and seldom of which tool. It is the first that they fail with when it stands alone
/// before a short message; what they fail at only where tools come together, or with these messages, stays as it is.
Error with_the_tool_named(const ServedModel& model, const api::Conversation& conversation, Error error) {
  api::Conversation brief;
  brief.messages.push_back(json::object{{"role", "user"}, {"content", "Hi"}});
  brief.chat_template_kwargs = conversation.chat_template_kwargs;
  brief.add_generation_prompt = conversation.add_generation_prompt;
  if (!render_with({}, model, brief)) return error;  // no tool is to blame
  const std::size_t num_tried = std::min(conversation.tools.size(), kMaxTriedTools);
  for (std::size_t i = 0; i < num_tried; ++i) {
    const json::value& tool = conversation.tools.at(i);
    const auto alone = render_with(json::array{tool}, model, brief);
    if (alone) continue;
    const std::string path = "tools[" + std::to_string(i) + "]";
    const std::string_view name = tool.at("function").at("name").get_string();
    return {alone.error().code, "'" + path + "', " + in_quotes(name) + ": " + alone.error().message, path};
  }
  return error;
}

}  // namespace

Result<PreparedGeneration> prepare_chat(const ServedModel& model, const SamplingDefaults& flags,
                                        const api::ChatRequest& request) {
  ASSIGN_OR_RETURN(const std::string prompt, render_conversation(model, request.conversation));
  const int whole_context = std::numeric_limits<int>::max();  // the engine clamps
  ASSIGN_OR_RETURN(PreparedGeneration prepared, with_sampling(model, flags, request.options,
                                                              model.generation.max_new_tokens.value_or(whole_context)));
  RETURN_IF_ERROR(check_length(model, prompt));
  ASSIGN_OR_RETURN(prepared.tool_calls, read_tool_calls(model, request.conversation));
  // The template has written the special tokens itself.
  ASSIGN_OR_RETURN(std::vector<TokenId> ids, model.tokenizer->encode(prompt, {.add_special_tokens = false}));
  const int num_stable = model.can_go_back ? 0 : num_stable_tokens(model, request.conversation, prompt, ids);
  prepared.prompts.push_back({.ids = std::move(ids), .num_stable_tokens = num_stable});
  return prepared;
}

Result<PreparedGeneration> prepare_completion(const ServedModel& model, const SamplingDefaults& flags,
                                              const api::CompletionRequest& request) {
  ASSIGN_OR_RETURN(PreparedGeneration prepared,
                   with_sampling(model, flags, request.options, api::openai::kDefaultCompletionTokens));
  prepared.continues_prompt = true;
  prepared.echo = request.echo;
  const Echo echo = !request.echo                      ? Echo::kNone
                    : request.options.num_top_logprobs ? Echo::kTextAndOffsets
                                                       : Echo::kText;
  for (const api::CompletionPrompt& prompt : request.prompts) {
    ASSIGN_OR_RETURN(PreparedPrompt ready, prepare_prompt(model, prompt, echo));
    prepared.prompts.push_back(std::move(ready));
  }
  return prepared;
}

int leave_out_volatile_lines(const text::VolatileLines& lines, api::Conversation& conversation) {
  const auto is_system = [](const json::value& message) { return message.as_object().at("role") == "system"; };
  const auto first = std::ranges::find_if(conversation.messages, is_system);
  if (first == conversation.messages.end()) return 0;
  json::string& content = first->as_object().at("content").as_string();
  const std::size_t part = std::min(conversation.first_system_part.value_or(content.size()), content.size());
  const text::LeadingLines found = lines.find(std::string_view(content).substr(0, part));
  if (found.count == 0) return 0;
  if (found.bytes == content.size() && conversation.messages.size() > 1) {
    conversation.messages.erase(first);
    conversation.first_system_part.reset();
  } else {
    content.erase(0, found.bytes);
    if (conversation.first_system_part) conversation.first_system_part = part - found.bytes;
  }
  log_debug("left out volatile lines of a system prompt",
            {{"lines", std::to_string(found.count)}, {"bytes", std::to_string(found.bytes)}});
  return found.count;
}

Result<std::string> render_conversation(const ServedModel& model, const api::Conversation& conversation) {
  if (!model.chat_template) {
    return fail(ErrorCode::kInvalidArgument,
                "model '" + model.id + "' has no chat template: send the whole prompt to /v1/completions instead",
                "messages");
  }
  if (!conversation.tools.empty() && !model.chat_template->reads_tools()) {
    return fail(ErrorCode::kUnsupported,
                "model '" + model.id + "' cannot be shown tools: its chat template has no place for them", "tools");
  }
  auto rendered = render_with(conversation.tools, model, conversation);
  if (rendered || conversation.tools.empty()) return rendered;
  return std::unexpected(with_the_tool_named(model, conversation, std::move(rendered).error()));
}

}  // namespace redpoll::server
