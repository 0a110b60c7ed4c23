// ThreadTeam: fork/join inside one kernel. A fork costs under a microsecond, because helpers spin for about 20
// microseconds after each job before they sleep; a pool of tasks would cost more than most kernels take. Made for
// machines that others use too: nobody spins longer than that, and nobody yields, so that what a busy core takes from
// one thread costs the others no more than its share.
#pragma once

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <thread>
#include <vector>

namespace redpoll::kernels::cpu {

/// A caller and num_threads - 1 helper threads. One thread at a time may call `parallel_for`, and a body must neither
/// throw nor call it. Helpers that wake late find nothing to do and delay nobody. The destructor joins.
class ThreadTeam {
 public:
  /// Throws what std::thread throws, no helper running.
  explicit ThreadTeam(int num_threads);
  ~ThreadTeam();
  ThreadTeam(const ThreadTeam&) = delete;
  ThreadTeam& operator=(const ThreadTeam&) = delete;

  [[nodiscard]] int num_threads() const { return static_cast<int>(helpers_.size()) + 1; }

  /// Within a body: which of the num_threads() runs it, from 0.
  [[nodiscard]] static int this_thread() { return this_thread_; }

  /// Calls body(begin, end) for consecutive parts of [0, count), `grain` long but for the last (a team of one: for
  /// all at once); returns when all are done. A thread goes through its own share of them in order, so that what it
  /// fetches ahead is what it needs next, and then helps with what others have left. Which thread takes a part is not
  /// determined: results must not depend on it.
  template <typename Body>
  void parallel_for(std::int64_t count, std::int64_t grain, const Body& body) {
    if (count <= 0) return;
    if (helpers_.empty() || count <= grain) return body(std::int64_t{0}, count);
    run({[](const void* context, std::int64_t begin, std::int64_t end) {
           (*static_cast<const Body*>(context))(begin, end);
         },
         &body, count, grain});
  }

 private:
  // Apart, because threads that wait read the one while others write the other.
  static constexpr std::size_t kCacheLine = 64;

  /// What one thread begins with: consecutive indices.
  struct alignas(kCacheLine) Share {
    std::atomic<std::int64_t> next{0};  // first index that nobody has taken
    std::int64_t end = 0;
  };

  struct Job {
    [[nodiscard]] std::int64_t num_parts() const { return (count + grain - 1) / grain; }

    void (*body)(const void* context, std::int64_t begin, std::int64_t end) = nullptr;
    const void* context = nullptr;
    std::int64_t count = 0;
    std::int64_t grain = 1;
  };

  void run(const Job& job);
  void announce(int num_wanted);
  void wait_for_helpers();
  void work();
  void take_from(Share& share) const;

  void stop();
  void helper_loop(int index);
  [[nodiscard]] std::uint32_t wait_for_job(std::uint32_t seen);
  [[nodiscard]] bool try_enter();
  void leave();

  static inline thread_local int this_thread_ = 0;  // callers are the first of their teams

  Job job_;                                                 // written while no helper is inside
  std::vector<Share> shares_;                               // of all threads; so are these, but for what is taken
  alignas(kCacheLine) std::atomic<std::uint32_t> gate_{0};  // kOpen while a job accepts helpers, kCallerSleeps, and the
                                                            // number of helpers inside
  alignas(kCacheLine) std::atomic<std::uint32_t> jobs_{0};  // counts jobs: what helpers wait for
  std::atomic<std::uint32_t> num_asleep_{0};                // helpers that do so asleep
  std::atomic<bool> stopping_{false};
  std::vector<std::thread> helpers_;
};

}  // namespace redpoll::kernels::cpu
