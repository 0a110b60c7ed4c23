#include "server/generation.h"

#include <algorithm>
#include <ranges>
#include <utility>

#include "base/utf8.h"
#include "engine/engine.h"
#include "engine/event_queue.h"
#include "server/choice_text.h"

namespace redpoll::server {

struct Generation::Prompt {
  const PreparedPrompt* prepared = nullptr;
  std::vector<Choice*> choices;
  engine::RequestId id = 0;  // 0: not submitted
  std::shared_ptr<engine::EventQueue> events;
  int num_running = 0;             // choices; 0: nothing more is expected from the engine
  std::optional<double> queue_ms;  // nothing: still in the queue
  int cached_tokens = 0;

  [[nodiscard]] Choice& choice(int index) const { return *choices[static_cast<std::size_t>(index)]; }
};

struct Generation::Choice {
  explicit Choice(ChoiceText choice_text) : text(std::move(choice_text)) {}

  int index = 0;            // of the request
  int index_in_prompt = 0;  // as the engine counts
  Prompt* prompt = nullptr;
  ChoiceText text;
  bool ended = false;
  std::optional<Clock::TimePoint> first_token_at;
  Clock::TimePoint last_token_at;
  api::Timings timings;
};

Generation::Generation(ServedModel& model, PreparedGeneration prepared)
    : model_(model), prepared_(std::move(prepared)), submitted_at_(system_clock().now()) {
  const api::GenerationOptions& options = prepared_.options;
  ChoiceTextOptions text_options{.stop = options.stop,
                                 .min_tokens = options.min_tokens,
                                 .with_tokens = options.num_top_logprobs || options.return_token_ids,
                                 .with_logprobs = options.num_top_logprobs.has_value(),
                                 .tool_calls = prepared_.tool_calls};
  const text::Tokenizer& tokenizer = *model_.tokenizer;
  for (const PreparedPrompt& prepared_prompt : prepared_.prompts) {
    text::DetokenizerOptions detokenizing{.starts_text = true};
    if (prepared_.tool_calls) detokenizing.shown_special_tokens = model_.tool_markup_ids;
    const text::Detokenizer detokenizer = prepared_.continues_prompt ? text::Detokenizer(tokenizer, prepared_prompt.ids)
                                                                     : text::Detokenizer(tokenizer, detokenizing);
    text_options.num_characters_before = count_characters(prepared_prompt.echo_text);
    auto& prompt = *prompts_.emplace_back(std::make_unique<Prompt>());
    prompt.prepared = &prepared_prompt;
    prompt.num_running = options.num_choices;
    for (int c = 0; c < options.num_choices; ++c, ++num_running_) {
      auto& choice = *choices_.emplace_back(std::make_unique<Choice>(ChoiceText(tokenizer, detokenizer, text_options)));
      choice.index = num_running_;
      choice.index_in_prompt = c;
      choice.prompt = &prompt;
      prompt.choices.push_back(&choice);
    }
  }
}

Generation::~Generation() { cancel(); }

Result<std::unique_ptr<Generation>> Generation::start(ServedModel& model, PreparedGeneration prepared,
                                                      const std::string& request_name,
                                                      const std::function<void()>& on_ready) {
  CHECK(!prepared.prompts.empty() && prepared.options.num_choices > 0, "a generation has a prompt and a choice");
  std::unique_ptr<Generation> generation(new Generation(model, std::move(prepared)));
  RETURN_IF_ERROR(generation->submit(request_name, on_ready));
  return generation;
}

engine::Request Generation::engine_request(const Prompt& prompt) const {
  const api::GenerationOptions& options = prepared_.options;
  engine::Request request;
  request.id = model_.engine->next_request_id();
  request.prompt = prompt.prepared->ids;
  request.num_stable_tokens = prompt.prepared->num_stable_tokens;
  request.sampling = prepared_.sampling;
  request.max_tokens = prepared_.max_tokens;
  request.min_tokens = options.min_tokens;
  if (!options.ignore_eos) request.stop_ids = model_.stop_ids;
  request.num_choices = options.num_choices;
  request.num_top_logprobs = options.num_top_logprobs.value_or(-1);
  request.prompt_logprobs = prepared_.scores_prompt();
  request.priority = options.priority;
  return request;
}

Status Generation::submit(const std::string& request_name, const std::function<void()>& on_ready) {
  for (const auto& prompt : prompts_) {
    engine::Request request = engine_request(*prompt);
    const engine::RequestId id = request.id;
    request.name = request_name;
    request.events = prompt->events = std::make_shared<engine::EventQueue>(on_ready);
    if (Status submitted = model_.engine->submit(std::move(request)); !submitted) {
      cancel();  // of those before it
      return submitted;
    }
    prompt->id = id;
  }
  if (prepared_.echo && !prepared_.scores_prompt()) {
    for (const auto& choice : choices_) pending_delta(*choice, true).text = choice->prompt->prepared->echo_text;
    on_ready();
  }
  return {};
}

Result<std::vector<GenerationOutput>> Generation::poll() {
  for (const auto& prompt : prompts_) {
    if (prompt->num_running == 0) continue;
    for (const engine::GenerationEvent& event : prompt->events->take()) on_event(*prompt, event);
  }
  std::erase_if(output_, [](const GenerationOutput& output) {
    const auto* delta = std::get_if<api::ChoiceDelta>(&output);
    return delta != nullptr && delta->text.empty() && delta->tool_calls.empty() && delta->tokens.empty();
  });
  if (output_.empty() && failure_) return std::unexpected(*std::exchange(failure_, std::nullopt));
  return std::exchange(output_, {});
}

void Generation::on_event(Prompt& prompt, const engine::GenerationEvent& event) {
  if (failure_) return;
  if (const auto* token = std::get_if<engine::TokenEvent>(&event)) {
    on_token(prompt.choice(token->choice), *token);
  } else if (const auto* finish = std::get_if<engine::FinishEvent>(&event)) {
    on_finish(prompt, *finish);
  } else if (const auto* start = std::get_if<engine::StartEvent>(&event)) {
    prompt.queue_ms = start->queue_ms;
    prompt.cached_tokens = start->cached_tokens;  // said now: the server may end the answer before the engine does
  } else if (const auto* scored = std::get_if<engine::PromptEvent>(&event)) {
    on_prompt(prompt, *scored);
  } else {
    prompt.num_running = 0;  // the engine has dropped it
    fail_all(std::get<engine::ErrorEvent>(event).error);
  }
}

// The delta that `choice` goes on filling in this round of poll; a new one when there is none of that kind at the end.
api::ChoiceDelta& Generation::pending_delta(const Choice& choice, bool echo) {
  for (GenerationOutput& output : std::views::reverse(output_)) {
    auto* delta = std::get_if<api::ChoiceDelta>(&output);
    if (delta == nullptr || delta->choice != choice.index) continue;
    if (delta->echo == echo) return *delta;
    break;
  }
  output_.emplace_back(api::ChoiceDelta{.choice = choice.index, .text = {}, .tokens = {}, .echo = echo});
  return std::get<api::ChoiceDelta>(output_.back());
}

void Generation::on_prompt(const Prompt& prompt, const engine::PromptEvent& event) {
  const std::vector<std::size_t>& begins = prompt.prepared->echo_begins;
  CHECK(begins.size() == event.tokens.size(), "a prompt that is scored is echoed, and says where its tokens begin");
  std::vector<api::TokenInfo> tokens;
  tokens.reserve(event.tokens.size());
  for (const engine::PromptToken& token : event.tokens) {
    const auto logprob = tokens.empty() ? std::nullopt : std::optional(token.logprob);
    api::TokenInfo info = token_info(*model_.tokenizer, token.id, logprob, token.top);
    info.text_offset = begins[tokens.size()];
    tokens.push_back(std::move(info));
  }
  for (const Choice* choice : prompt.choices) {
    api::ChoiceDelta& delta = pending_delta(*choice, true);
    delta.text = prompt.prepared->echo_text;
    delta.tokens = tokens;
  }
}

void Generation::on_token(Choice& choice, const engine::TokenEvent& event) {
  if (choice.ended) return;  // computed before the engine learned of the stop string
  const Clock::TimePoint now = system_clock().now();
  if (choice.first_token_at) {
    inter_token_.observe(milliseconds_between(choice.last_token_at, now) / 1000);
  } else {
    choice.first_token_at = now;
  }
  choice.last_token_at = now;
  if (choice.text.push(event, pending_delta(choice, false))) {
    model_.engine->cancel(choice.prompt->id, choice.index_in_prompt);
    end_choice(choice, api::FinishReason::kStop, measured_timings(choice));
  }
}

void Generation::on_finish(Prompt& prompt, const engine::FinishEvent& event) {
  prompt.cached_tokens = std::max(prompt.cached_tokens, event.cached_tokens);  // one choice begins, others fork
  Choice& choice = prompt.choice(event.choice);
  if (choice.ended) return;
  if (event.reason == engine::FinishReason::kCancelled) {
    fail_all(Error{ErrorCode::kUnavailable, "the engine has stopped before the answer was complete", {}});
    return;
  }
  choice.text.finish(pending_delta(choice, false));
  const engine::Timings& timings = event.timings;
  const bool length = event.reason == engine::FinishReason::kLength;
  end_choice(choice, length ? api::FinishReason::kLength : api::FinishReason::kStop,
             {timings.queue_ms, timings.prefill_ms, timings.decode_ms, timings.ttft_ms});
}

void Generation::end_choice(Choice& choice, api::FinishReason reason, const api::Timings& timings) {
  if (reason == api::FinishReason::kStop && choice.text.num_tool_calls() > 0) reason = api::FinishReason::kToolCalls;
  choice.ended = true;
  choice.timings = timings;
  --choice.prompt->num_running;
  --num_running_;
  const auto prompt_tokens = static_cast<int>(choice.prompt->prepared->ids.size());
  output_.emplace_back(api::ChoiceEnd{.choice = choice.index,
                                      .reason = reason,
                                      .usage = {.prompt_tokens = prompt_tokens,
                                                .completion_tokens = choice.text.num_tokens(),
                                                .cached_tokens = choice.prompt->cached_tokens,
                                                .reasoning_tokens = 0},
                                      .timings = timings});
}

// For a choice that the engine has not finished. If a stop string ends it, the engine's own figures would come a step
// later, and nobody should wait for them.
api::Timings Generation::measured_timings(const Choice& choice) const {
  const std::optional<double>& queue_ms = choice.prompt->queue_ms;
  api::Timings timings;
  timings.queue_ms = queue_ms ? *queue_ms : milliseconds_between(submitted_at_, system_clock().now());
  if (!choice.first_token_at) return timings;
  timings.ttft_ms = milliseconds_between(submitted_at_, *choice.first_token_at);
  timings.prefill_ms = std::max(timings.ttft_ms - timings.queue_ms, 0.0);
  timings.decode_ms = milliseconds_between(*choice.first_token_at, choice.last_token_at);
  return timings;
}

void Generation::cancel() {
  end_in_engine();
  failure_.reset();
  output_.clear();
}

void Generation::fail_all(const Error& error) {
  end_in_engine();
  failure_ = error;
}

void Generation::end_in_engine() {
  for (const auto& prompt : prompts_) {
    if (prompt->num_running > 0 && prompt->id != 0) model_.engine->cancel(prompt->id);
    prompt->num_running = 0;
  }
  num_running_ = 0;
}

const std::vector<TokenId>& Generation::prompt_of(int choice) const {
  return choices_[static_cast<std::size_t>(choice)]->prompt->prepared->ids;
}

api::Usage Generation::usage() const {
  api::Usage usage;
  for (const PreparedPrompt& prompt : prepared_.prompts) usage.prompt_tokens += static_cast<int>(prompt.ids.size());
  for (const auto& prompt : prompts_) usage.cached_tokens += prompt->cached_tokens;
  for (const auto& choice : choices_) usage.completion_tokens += choice->text.num_tokens();
  return usage;
}

api::Timings Generation::timings() const {
  api::Timings slowest;
  for (const auto& choice : choices_) {
    const api::Timings timings = choice->ended ? choice->timings : measured_timings(*choice);
    slowest.queue_ms = std::max(slowest.queue_ms, timings.queue_ms);
    slowest.prefill_ms = std::max(slowest.prefill_ms, timings.prefill_ms);
    slowest.decode_ms = std::max(slowest.decode_ms, timings.decode_ms);
    slowest.ttft_ms = std::max(slowest.ttft_ms, timings.ttft_ms);
  }
  return slowest;
}

void add_to_answer(api::Answer& answer, GenerationOutput output) {
  if (const auto* end = std::get_if<api::ChoiceEnd>(&output)) {
    answer.choices[static_cast<std::size_t>(end->choice)].reason = end->reason;
    return;
  }
  auto& delta = std::get<api::ChoiceDelta>(output);
  api::ChoiceResult& choice = answer.choices[static_cast<std::size_t>(delta.choice)];
  choice.text += delta.text;
  std::ranges::move(delta.tool_calls, std::back_inserter(choice.tool_calls));
  auto& tokens = delta.echo ? choice.prompt_tokens : choice.tokens;
  std::ranges::move(delta.tokens, std::back_inserter(tokens));
}

}  // namespace redpoll::server
