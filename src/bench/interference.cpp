#include "bench/interference.h"

#include <algorithm>
#include <atomic>
#include <future>
#include <semaphore>
#include <utility>

#include "base/clock.h"
#include "bench/table.h"

namespace redpoll::bench {
namespace {

struct Round {
  LoadResult streams;
  LoadResult intruder;
};

Result<Round> run_round(const LoadOptions& options, const InterferencePrompts& prompts) {
  std::binary_semaphore may_enter(0);
  std::atomic<int> tokens_until_then = static_cast<int>(prompts.streams.size()) * options.max_tokens / 4 + 1;

  LoadOptions streams = options;
  streams.streams = static_cast<int>(prompts.streams.size());
  streams.on_token = [&] {
    if (--tokens_until_then == 0) may_enter.release();
  };
  LoadOptions intruder = options;
  intruder.streams = 1;
  intruder.max_tokens = 1;

  std::future<Result<LoadResult>> running =
      std::async(std::launch::async, [&] { return run_load(streams, prompts.streams); });
  // Streams that fail never come so far.
  while (!may_enter.try_acquire_for(std::chrono::milliseconds(100))) {
    if (running.wait_for(std::chrono::seconds(0)) != std::future_status::ready) continue;
    RETURN_IF_ERROR(running.get());
    return fail(ErrorCode::kInternal, "the streams were over before the long prompt came");
  }
  Result<LoadResult> entered = run_load(intruder, {prompts.intruder});
  ASSIGN_OR_RETURN(LoadResult stayed, running.get());
  RETURN_IF_ERROR(entered);
  return Round{.streams = std::move(stayed), .intruder = *std::move(entered)};
}

void add_row(Table& table, const std::string& name, const Percentiles& figures) {
  table.add_row({name, format_figure(figures.p50), format_figure(figures.p99), format_figure(figures.max)});
}

}  // namespace

namespace internal {

void sort_gaps(const std::vector<RequestSample>& streams, const RequestSample& intruder, Gaps& gaps) {
  auto all_run_since = Clock::TimePoint::min();
  for (const RequestSample& stream : streams) all_run_since = std::max(all_run_since, stream.tokens_at.front());
  for (const RequestSample& stream : streams) {
    for (std::size_t i = 1; i < stream.tokens_at.size(); ++i) {
      const auto from = stream.tokens_at[i - 1];
      const auto until = stream.tokens_at[i];
      if (from < all_run_since) continue;
      const bool is_disturbed = until > intruder.sent_at && from < intruder.tokens_at.front();
      (is_disturbed ? gaps.disturbed_ms : gaps.calm_ms).push_back(milliseconds_between(from, until));
    }
  }
}

}  // namespace internal

Result<InterferenceFigure> measure_interference(const LoadOptions& options,
                                                const std::vector<InterferencePrompts>& rounds) {
  internal::Gaps gaps;
  InterferenceFigure figure;
  for (const InterferencePrompts& prompts : rounds) {
    ASSIGN_OR_RETURN(const Round round, run_round(options, prompts));
    const RequestSample& intruder = round.intruder.samples.front();
    figure.prompt_tokens += intruder.prompt_tokens / static_cast<double>(rounds.size());
    figure.ttft_ms += intruder.ttft_ms / static_cast<double>(rounds.size());
    internal::sort_gaps(round.streams.samples, intruder, gaps);
  }
  if (gaps.calm_ms.empty() || gaps.disturbed_ms.empty()) {
    return fail(ErrorCode::kInvalidArgument,
                std::string("no two tokens of a stream came ") +
                    (gaps.calm_ms.empty() ? "without the long prompt" : "while the long prompt came in") +
                    ": expected longer answers than " + std::to_string(options.max_tokens) + " tokens",
                "max_tokens");
  }
  figure.calm_ms = percentiles_of(std::move(gaps.calm_ms));
  figure.disturbed_ms = percentiles_of(std::move(gaps.disturbed_ms));
  return figure;
}

std::string to_text(const InterferenceFigure& figure) {
  Table table({"between tokens, milliseconds", "p50", "p99", "max"});
  add_row(table, "without the long prompt", figure.calm_ms);
  add_row(table, "while it comes in", figure.disturbed_ms);
  Table intruder({"the long prompt", ""});
  intruder.add_row({"tokens", format_figure(figure.prompt_tokens)});
  intruder.add_row({"first token, ms", format_figure(figure.ttft_ms)});
  return table.text() + '\n' + intruder.text();
}

json::object to_json(const InterferenceFigure& figure) {
  return {{"prompt_tokens", figure.prompt_tokens},
          {"ttft_ms", figure.ttft_ms},
          {"calm_ms", to_json(figure.calm_ms)},
          {"disturbed_ms", to_json(figure.disturbed_ms)}};
}

}  // namespace redpoll::bench
