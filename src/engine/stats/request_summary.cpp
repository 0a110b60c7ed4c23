#include "engine/stats/request_summary.h"

namespace redpoll::engine {
namespace {

const char* state_name(const Sequence& sequence) {
  if (sequence.state == SequenceState::kWaiting) return "waiting";
  return sequence.num_computed() < sequence.num_prompt_tokens() ? "prefill" : "decode";
}

}  // namespace

std::vector<RequestStats> summarize_requests(const std::vector<std::unique_ptr<Sequence>>& sequences) {
  std::vector<RequestStats> requests;
  const ActiveRequest* previous = nullptr;  // choices of a request arrive together, so they are neighbours
  for (const auto& sequence : sequences) {
    if (sequence->active.get() != previous) {
      previous = sequence->active.get();
      requests.push_back(
          {.name = sequence->request().name, .state = "waiting", .prompt_tokens = sequence->num_prompt_tokens()});
    }
    RequestStats& stats = requests.back();
    if (sequence->num_computed() > stats.computed_tokens || stats.state == "waiting") {
      stats.state = state_name(*sequence);
      stats.computed_tokens = sequence->num_computed();
    }
    stats.generated_tokens += sequence->num_generated();
  }
  return requests;
}

}  // namespace redpoll::engine
