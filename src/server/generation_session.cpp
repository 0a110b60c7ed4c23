#include "server/generation_session.h"

#include <algorithm>
#include <optional>

#include "api/errors.h"
#include "base/log.h"
#include "base/random_id.h"
#include "http/async.h"
#include "http/signal.h"
#include "server/responses.h"

namespace redpoll::server {
namespace {

using std::chrono::milliseconds;

milliseconds time_until(Clock::TimePoint end) {
  return std::max(std::chrono::ceil<milliseconds>(end - system_clock().now()), milliseconds{0});
}

class GenerationSession {
 public:
  GenerationSession(AppContext& context, const Protocol& protocol, http::Request& request, http::Exchange& exchange);
  ~GenerationSession();  // the request enters the metrics here, however it ended
  GenerationSession(const GenerationSession&) = delete;
  GenerationSession& operator=(const GenerationSession&) = delete;

  http::Task<http::Response> run();

 private:
  using Outputs = std::vector<GenerationOutput>;

  http::Task<http::Response> answer_whole();
  http::Task<http::Response> answer_streaming();
  static http::Task<bool> send(http::EventStream& events, std::string data);
  http::Task<bool> send_outputs(http::EventStream& events, std::shared_ptr<api::StreamFormat> format);
  http::Task<std::string> format_output(std::shared_ptr<api::StreamFormat> format, GenerationOutput output) const;
  http::Task<Result<Outputs>> next_outputs();
  http::Task<Result<Outputs>> poll();
  [[nodiscard]] http::Response failure(const Error& error);
  void note_failure(const Error& error);

  AppContext& context_;
  const Protocol& protocol_;
  http::Request& request_;
  http::Exchange& exchange_;
  Clock::TimePoint started_at_ = system_clock().now();
  std::optional<Clock::TimePoint> deadline_;
  http::Signal signal_;  // something came from the engine, or the client has gone
  api::AnswerHead head_;
  std::vector<std::string> warnings_;
  std::shared_ptr<Generation> generation_;  // shared with a worker while it polls
  int status_ = 500;                        // stays when an exception ends the session
};

GenerationSession::GenerationSession(AppContext& context, const Protocol& protocol, http::Request& request,
                                     http::Exchange& exchange)
    : context_(context), protocol_(protocol), request_(request), exchange_(exchange) {
  if (context.options.request_timeout.count() > 0) deadline_ = started_at_ + context.options.request_timeout;
  head_.id = random_hex();
  head_.created =
      std::chrono::duration_cast<std::chrono::seconds>(system_clock().wall_now().time_since_epoch()).count();
  head_.model = context.model->id;
  head_.system_fingerprint = context.model->system_fingerprint;
}

GenerationSession::~GenerationSession() {
  RequestObservation observation{.endpoint = protocol_.endpoint, .status = status_};
  observation.total_s = milliseconds_between(started_at_, system_clock().now()) / 1000;
  if (!generation_) {
    context_.metrics.observe(observation, make_inter_token_histogram());
    return;
  }
  const api::Usage usage = generation_->usage();
  const api::Timings timings = generation_->timings();
  observation.generated = true;
  observation.volatile_lines = generation_->prepared().num_volatile_lines;
  observation.queue_s = timings.queue_ms / 1000;
  observation.ttft_s = usage.completion_tokens > 0 ? timings.ttft_ms / 1000 : -1;
  observation.prompt_tokens = usage.prompt_tokens;
  observation.cached_tokens = usage.cached_tokens;
  observation.completion_tokens = usage.completion_tokens;
  context_.metrics.observe(observation, generation_->inter_token());
}

http::Task<http::Response> GenerationSession::run() {
  exchange_.on_disconnect([signal = signal_] { signal.notify(); });
  Result<PreparedRequest> prepared = co_await run_with_json(context_, request_, protocol_.prepare);
  if (!prepared) co_return failure(prepared.error());
  warnings_ = std::move(prepared->warnings);
  if (exchange_.client_gone()) co_return failure(Error{ErrorCode::kCancelled, "the client has gone", {}});

  const std::function<void()> on_ready = [signal = signal_] { signal.notify(); };
  auto generation = Generation::start(*context_.model, std::move(prepared->generation), request_.id, on_ready);
  if (!generation) co_return failure(generation.error());
  generation_ = *std::move(generation);

  status_ = 200;
  if (generation_->prepared().options.stream) co_return co_await answer_streaming();
  co_return co_await answer_whole();
}

// One answer at the end. Formatting it goes to a worker too: scores of a long prompt make megabytes of JSON.
http::Task<http::Response> GenerationSession::answer_whole() {
  auto answer = std::make_shared<api::Answer>();
  answer->choices.resize(static_cast<std::size_t>(generation_->num_choices()));
  while (!generation_->done()) {
    Result<Outputs> outputs = co_await next_outputs();
    if (!outputs) co_return failure(outputs.error());
    for (GenerationOutput& output : *outputs) add_to_answer(*answer, std::move(output));
  }
  answer->usage = generation_->usage();
  answer->timings = generation_->timings();
  const PreparedGeneration& prepared = generation_->prepared();
  if (prepared.options.return_token_ids) {
    for (const PreparedPrompt& prompt : prepared.prompts) answer->prompt_token_ids.push_back(prompt.ids);
  }
  auto work = [&protocol = protocol_, head = head_, options = prepared.options, answer] {
    return protocol.format_answer(head, options, *answer);
  };
  const TaskLength length = prepared.echo ? TaskLength::kLong : TaskLength::kShort;
  std::string body = co_await http::run_on(*context_.workers, std::move(work), length);
  co_return json_response(std::move(body), warnings_);
}

http::Task<http::Response> GenerationSession::answer_streaming() {
  const std::shared_ptr<api::StreamFormat> format = protocol_.make_stream(head_, generation_->prepared().options);
  http::EventStream* events = co_await exchange_.open_event_stream(warning_headers(warnings_));
  if (!co_await send_outputs(*events, format)) {
    generation_->cancel();
    status_ = kClientGoneStatus;
  }
  co_return http::Response{};  // ignored: the stream is the answer
}

// Sends nothing where the protocol has nothing to say. False: the client has gone.
http::Task<bool> GenerationSession::send(http::EventStream& events, std::string data) {
  if (data.empty()) co_return true;
  co_return co_await events.send(data);
}

// The whole stream. False: the client has gone.
http::Task<bool> GenerationSession::send_outputs(http::EventStream& events, std::shared_ptr<api::StreamFormat> format) {
  for (int choice = 0; choice < generation_->num_choices(); ++choice) {
    if (!co_await send(events, format->start(choice, generation_->prompt_of(choice)))) co_return false;
  }
  while (!generation_->done()) {
    Result<Outputs> outputs = co_await next_outputs();
    if (!outputs) {
      note_failure(outputs.error());
      if (outputs.error().code == ErrorCode::kCancelled) co_return false;
      if (!co_await send(events, api::openai_error_body(outputs.error()))) co_return false;
      co_return co_await send(events, "[DONE]");
    }
    if (outputs->empty() && !co_await events.comment("still working")) co_return false;
    for (GenerationOutput& output : *outputs) {
      std::string data = co_await format_output(format, std::move(output));
      if (!co_await send(events, std::move(data))) co_return false;
    }
  }
  if (!co_await send(events, format->usage(generation_->usage()))) co_return false;
  co_return co_await send(events, "[DONE]");
}

// On a worker where it is long: the scores of a prompt.
http::Task<std::string> GenerationSession::format_output(std::shared_ptr<api::StreamFormat> format,
                                                         GenerationOutput output) const {
  if (const auto* end = std::get_if<api::ChoiceEnd>(&output)) co_return format->finish(*end);
  auto& delta = std::get<api::ChoiceDelta>(output);
  if (!delta.echo) co_return format->delta(delta);
  auto work = [format = std::move(format), delta = std::move(delta)] { return format->delta(delta); };
  co_return co_await http::run_on(*context_.workers, std::move(work), TaskLength::kLong);
}

// What came next; nothing when comment_interval passed in silence. kCancelled: the client has gone; kTimeout: the
// request took longer than it may.
http::Task<Result<GenerationSession::Outputs>> GenerationSession::next_outputs() {
  const Clock::TimePoint silence_ends = system_clock().now() + context_.options.comment_interval;
  for (;;) {
    if (exchange_.client_gone()) co_return fail(ErrorCode::kCancelled, "the client has gone");
    if (deadline_ && system_clock().now() >= *deadline_) {
      co_return fail(ErrorCode::kTimeout, "the request was not done after " +
                                              std::to_string(context_.options.request_timeout.count()) +
                                              " ms, which is this server's limit");
    }
    Result<Outputs> outputs = co_await poll();
    if (!outputs || !outputs->empty() || generation_->done()) co_return outputs;
    // Tokens that show nothing yet wake us without ending the silence.
    if (system_clock().now() >= silence_ends) co_return Outputs{};
    (void)co_await signal_.wait(time_until(deadline_ ? std::min(silence_ends, *deadline_) : silence_ends));
  }
}

// Microseconds a token, so it stays on this thread, but for the scores of a whole prompt.
http::Task<Result<GenerationSession::Outputs>> GenerationSession::poll() {
  const PreparedGeneration& prepared = generation_->prepared();
  if (!prepared.echo) co_return generation_->poll();
  auto work = [generation = generation_] { return generation->poll(); };
  co_return co_await http::run_on(*context_.workers, std::move(work), TaskLength::kLong);
}

http::Response GenerationSession::failure(const Error& error) {
  note_failure(error);
  return error_response(error);
}

void GenerationSession::note_failure(const Error& error) {
  if (generation_) generation_->cancel();
  status_ = error.code == ErrorCode::kCancelled ? kClientGoneStatus : api::http_status(error.code);
  if (status_ >= 500) {
    log_warn(
        "request failed",
        {{"request_id", request_.id}, {"code", std::string(error_code_name(error.code))}, {"message", error.message}});
  }
}

}  // namespace

http::Task<http::Response> serve_generation(AppContext& context, const Protocol& protocol, http::Request& request,
                                            http::Exchange& exchange) {
  GenerationSession session(context, protocol, request, exchange);
  co_return co_await session.run();
}

}  // namespace redpoll::server
