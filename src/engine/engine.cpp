// The engine's public face: a thread with an EngineLoop on it, and the mailbox between that thread and the others.
#include "engine/engine.h"

#include <atomic>
#include <future>
#include <thread>
#include <utility>

#include "engine/engine_loop.h"
#include "engine/mailbox.h"

namespace redpoll::engine {
namespace {

Status check_options(const EngineOptions& options) {
  const auto expect_positive = [](int value, const char* name) -> Status {
    if (value > 0) return {};
    return fail(ErrorCode::kInvalidArgument,
                std::string("expected --") + name + " of at least 1, got " + std::to_string(value), name);
  };
  RETURN_IF_ERROR(expect_positive(options.max_batch, "max-batch"));
  RETURN_IF_ERROR(expect_positive(options.block_tokens, "block-tokens"));
  if (options.max_queue < 0) {
    return fail(ErrorCode::kInvalidArgument,
                "expected --max-queue of at least 0, got " + std::to_string(options.max_queue), "max-queue");
  }
  if (options.context_length < 0) {
    return fail(ErrorCode::kInvalidArgument,
                "expected --context-length of at least 0, got " + std::to_string(options.context_length),
                "context-length");
  }
  if (options.step_tokens < options.max_batch) {
    return fail(ErrorCode::kInvalidArgument,
                "expected --step-tokens of at least " + std::to_string(options.max_batch) +
                    ", one for each sequence of a full batch, got " + std::to_string(options.step_tokens),
                "step-tokens");
  }
  const int exact_tokens = 2 * kernels::kExactPromptChunk + options.max_batch;
  if (options.exact && options.step_tokens < exact_tokens) {
    return fail(ErrorCode::kInvalidArgument,
                "expected --step-tokens of at least " + std::to_string(exact_tokens) + " with --exact, got " +
                    std::to_string(options.step_tokens) + "; leave it out",
                "step-tokens");
  }
  return {};
}

}  // namespace

class Engine::Impl {
 public:
  explicit Impl(const Clock& clock) : clock(clock), mailbox(std::make_shared<Mailbox>()) {}
  ~Impl() {
    mailbox->stop();
    if (thread.joinable()) thread.join();
  }

  const Clock& clock;
  std::shared_ptr<Mailbox> mailbox;
  std::atomic<RequestId> last_id = 0;
  std::thread thread;
};

Result<std::unique_ptr<Engine>> Engine::start(const EngineOptions& options, ModelLoader loader, const Clock& clock) {
  RETURN_IF_ERROR(check_options(options));
  auto impl = std::make_unique<Impl>(clock);
  std::promise<Status> loaded;
  std::future<Status> outcome = loaded.get_future();
  impl->thread = std::thread(
      [options, loader = std::move(loader), mailbox = impl->mailbox, &clock, loaded = std::move(loaded)]() mutable {
        auto loop = EngineLoop::load(options, std::exchange(loader, nullptr), std::move(mailbox), clock);
        if (!loop) return loaded.set_value(std::unexpected(std::move(loop).error()));
        loaded.set_value({});
        (*loop)->run();
      });
  RETURN_IF_ERROR(outcome.get());
  return std::unique_ptr<Engine>(new Engine(std::move(impl)));
}

Engine::Engine(std::unique_ptr<Impl> impl) : impl_(std::move(impl)) {}
Engine::~Engine() = default;

RequestId Engine::next_request_id() { return ++impl_->last_id; }

Status Engine::submit(Request request) { return impl_->mailbox->submit(std::move(request), impl_->clock.now()); }

void Engine::cancel(RequestId id, std::optional<int> choice) { impl_->mailbox->cancel({.id = id, .choice = choice}); }

Result<CacheExplanation> Engine::explain(CacheQuery query) {
  CacheQuestion question{.query = std::move(query), .answer = {}};
  std::future<Result<CacheExplanation>> answer = question.answer.get_future();
  RETURN_IF_ERROR(impl_->mailbox->ask(std::move(question)));
  return answer.get();
}

EngineStats Engine::stats() const { return impl_->mailbox->stats(impl_->clock.now()); }

}  // namespace redpoll::engine
