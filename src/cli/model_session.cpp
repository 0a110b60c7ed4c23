#include "cli/model_session.h"

#include <csignal>
#include <iostream>

#include "server/model_locator.h"

namespace redpoll::cli {
namespace {

std::atomic<bool> interrupt_requested = false;
static_assert(std::atomic<bool>::is_always_lock_free, "set from a signal handler");

void on_interrupt(int) {
  if (interrupt_requested.exchange(true)) {
    std::signal(SIGINT, SIG_DFL);
    std::raise(SIGINT);
  }
}

}  // namespace

Result<std::shared_ptr<server::ServedModel>> load_model(const std::string& model, server::EngineSettings settings) {
  settings.max_batch = 1;
  settings.max_queue = 1;
  ASSIGN_OR_RETURN(const server::ModelLocation location,
                   server::locate_model(model, server::ModelPlaces::from_environment()));
  return server::load_served_model(location, {.alias = {}, .engine = settings},
                                   [](std::string_view line) { std::cerr << line << '\n'; });
}

InterruptGuard::InterruptGuard() {
  interrupt_requested = false;
  std::signal(SIGINT, on_interrupt);
}

InterruptGuard::~InterruptGuard() { std::signal(SIGINT, SIG_DFL); }

bool InterruptGuard::interrupted() { return interrupt_requested; }

Result<api::Answer> generate_answer(server::ServedModel& model, server::PreparedGeneration prepared,
                                    const std::function<void(std::string_view)>& on_text) {
  const InterruptGuard guard;
  api::Answer answer;
  answer.choices.resize(1);
  std::vector<TokenId> prompt_ids = prepared.prompts.front().ids;
  auto usage = server::run_generation(model, std::move(prepared), [&](const server::GenerationOutput& output) {
    if (const auto* delta = std::get_if<api::ChoiceDelta>(&output)) on_text(delta->text);
    if (const auto* end = std::get_if<api::ChoiceEnd>(&output)) answer.timings = end->timings;
    server::add_to_answer(answer, output);
    return !InterruptGuard::interrupted();
  });
  if (!usage) return std::unexpected(usage.error());
  answer.usage = *usage;
  answer.prompt_token_ids.push_back(std::move(prompt_ids));
  return answer;
}

}  // namespace redpoll::cli
