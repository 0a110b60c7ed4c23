// Generation: one request from prepared prompts to text, in the native types that every protocol formats. It turns the
// engine's token events into whole characters, applies stop strings, reads tool calls and keeps count; it knows no
// protocol and no sockets, so `redpoll generate` uses it as the HTTP sessions do.
#pragma once

#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <variant>
#include <vector>

#include "api/generation.h"
#include "base/clock.h"
#include "base/error.h"
#include "engine/request.h"
#include "engine/sampling_params.h"
#include "server/metrics.h"
#include "server/served_model.h"
#include "text/tool_calls/parser.h"

namespace redpoll::server {

struct PreparedPrompt {
  std::vector<TokenId> ids;
  // Only for `echo`: what it repeats, and for each id how many characters of that come before it.
  std::string echo_text = {};
  std::vector<std::size_t> echo_begins = {};
  int num_stable_tokens = 0;  // see engine::Request
};

/// A request with everything decided: templates rendered, text tokenized, sampling resolved. See server/prepare.h.
struct PreparedGeneration {
  std::vector<PreparedPrompt> prompts;  // at least one
  api::GenerationOptions options;
  engine::SamplingParams sampling;
  int max_tokens = 0;
  bool continues_prompt = false;  // the answer goes on in the middle of a text, as completions do and chat does not
  bool echo = false;
  std::optional<text::ToolCallOptions> tool_calls = {};  // the answer may call tools
  int num_volatile_lines = 0;                            // that were left out of the prompt

  /// The prompt's logprobs are wanted.
  [[nodiscard]] bool scores_prompt() const { return echo && options.num_top_logprobs.has_value(); }
};

using GenerationOutput = std::variant<api::ChoiceDelta, api::ChoiceEnd>;

/// Used by one thread at a time; `on_ready` alone is called from the engine's thread. Choice c of prompt p has the
/// index p * num_choices + c. Destroying it ends whatever still runs.
class Generation {
 public:
  /// Submits every prompt, or none: kQueueFull, kContextLengthExceeded and what else Engine::submit says. `on_ready`
  /// is called whenever `poll` may have something new; it must be cheap and may outlive this object.
  [[nodiscard]] static Result<std::unique_ptr<Generation>> start(ServedModel& model, PreparedGeneration prepared,
                                                                 const std::string& request_name,
                                                                 const std::function<void()>& on_ready);
  ~Generation();
  Generation(const Generation&) = delete;
  Generation& operator=(const Generation&) = delete;

  /// What happened since the last call, in order: deltas of a choice, then exactly one ChoiceEnd for it. What came
  /// together is joined into one delta per choice. An Error means that the whole request has failed and was ended; it
  /// comes after everything that came before the failure.
  [[nodiscard]] Result<std::vector<GenerationOutput>> poll();

  /// Every choice has ended, and no Error is waiting to be polled.
  [[nodiscard]] bool done() const { return num_running_ == 0 && !failure_; }
  /// Ends whatever still runs; nothing more comes out.
  void cancel();

  [[nodiscard]] const PreparedGeneration& prepared() const { return prepared_; }
  [[nodiscard]] int num_choices() const { return static_cast<int>(choices_.size()); }
  [[nodiscard]] const std::vector<TokenId>& prompt_of(int choice) const;
  /// Of the whole request so far. Timings are those of its slowest choice: all but queue_ms are zero before its first
  /// token.
  [[nodiscard]] api::Usage usage() const;
  [[nodiscard]] api::Timings timings() const;
  /// Seconds between the arrivals of a choice's tokens.
  [[nodiscard]] const Histogram& inter_token() const { return inter_token_; }

 private:
  struct Prompt;
  struct Choice;
  Generation(ServedModel& model, PreparedGeneration prepared);

  [[nodiscard]] engine::Request engine_request(const Prompt& prompt) const;
  Status submit(const std::string& request_name, const std::function<void()>& on_ready);
  void on_event(Prompt& prompt, const engine::GenerationEvent& event);
  void on_prompt(const Prompt& prompt, const engine::PromptEvent& event);
  void on_token(Choice& choice, const engine::TokenEvent& event);
  void on_finish(Prompt& prompt, const engine::FinishEvent& event);
  void end_choice(Choice& choice, api::FinishReason reason, const api::Timings& timings);
  void fail_all(const Error& error);
  void end_in_engine();
  [[nodiscard]] api::Timings measured_timings(const Choice& choice) const;
  [[nodiscard]] api::ChoiceDelta& pending_delta(const Choice& choice, bool echo);

  ServedModel& model_;
  PreparedGeneration prepared_;
  std::vector<std::unique_ptr<Prompt>> prompts_;
  std::vector<std::unique_ptr<Choice>> choices_;
  std::vector<GenerationOutput> output_;  // what poll will return
  std::optional<Error> failure_;          // and, when that is empty, why there is no more
  int num_running_ = 0;
  Clock::TimePoint submitted_at_;
  Histogram inter_token_ = make_inter_token_histogram();
};

/// Puts one output where it belongs in a whole answer, whose `choices` must have their final size.
void add_to_answer(api::Answer& answer, GenerationOutput output);

}  // namespace redpoll::server
