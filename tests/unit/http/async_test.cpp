// run_on and Signal, exercised from handlers.
#include "http/async.h"

#include "unit/http/server_fixture.h"

namespace redpoll::http {
namespace {

class AsyncTest : public ServerTest {
 protected:
  // Runs `body` as a handler and gives back what it answers.
  std::string answer_of(std::function<Task<std::string>()> body) {
    router_.add("GET", "/run", [body = std::move(body)](Request&, Exchange&) -> Task<Response> {
      Response response;
      response.body = co_await body();
      co_return response;
    });
    start();
    TestClient client(port());
    return client.get("/run").body;
  }

  ThreadPool pool_{2};
};

TEST_F(AsyncTest, WorkRunsOnAWorkerAndTheRestOnTheIoThread) {
  const std::string answer = answer_of([this]() -> Task<std::string> {
    const auto before = std::this_thread::get_id();
    const auto worker = co_await run_on(pool_, [] { return std::this_thread::get_id(); });
    co_return std::string(worker == before ? "same" : "other") +
        (std::this_thread::get_id() == before ? " back" : " lost");
  });
  EXPECT_EQ(answer, "other back");
}

TEST_F(AsyncTest, MoveOnlyWorkAndResultsPass) {
  const std::string answer = answer_of([this]() -> Task<std::string> {
    auto text = std::make_unique<std::string>("moved");
    auto work = [text = std::move(text)]() mutable { return std::move(text); };
    auto result = co_await run_on(pool_, std::move(work));
    co_return *result;
  });
  EXPECT_EQ(answer, "moved");
}

TEST_F(AsyncTest, AnExceptionComesBackToTheCaller) {
  const std::string answer = answer_of([this]() -> Task<std::string> {
    std::string caught;
    try {
      (void)co_await run_on(pool_, []() -> int { throw std::runtime_error("from the worker"); });
    } catch (const std::exception& exception) {
      caught = exception.what();
    }
    co_return caught;
  });
  EXPECT_EQ(answer, "from the worker");
}

TEST_F(AsyncTest, ANotificationBeforeTheWaitIsNotLost) {
  const std::string answer = answer_of([]() -> Task<std::string> {
    const Signal signal;
    signal.notify();
    signal.notify();
    const bool first = co_await signal.wait(milliseconds(1000));
    const bool second = co_await signal.wait(milliseconds(1));
    co_return std::string(first ? "found" : "lost") + (second ? " twice" : " once");
  });
  EXPECT_EQ(answer, "found once");
}

TEST_F(AsyncTest, AWaitEndsByItsTimeout) {
  const std::string answer = answer_of([]() -> Task<std::string> {
    const Signal signal;
    const auto begin = std::chrono::steady_clock::now();
    const bool notified = co_await signal.wait(milliseconds(50));
    const bool waited = std::chrono::steady_clock::now() - begin >= milliseconds(50);
    co_return notified ? "notified" : waited ? "waited" : "early";
  });
  EXPECT_EQ(answer, "waited");
}

TEST_F(AsyncTest, ManyNotificationsFromAnotherThreadAreAllSeenInTheEnd) {
  std::atomic<int> produced = 0;
  const std::string answer = answer_of([this, &produced]() -> Task<std::string> {
    const Signal signal;
    pool_.post([signal, &produced] {
      for (int i = 0; i < 20'000; ++i) {
        ++produced;
        signal.notify();
      }
    });
    while (produced < 20'000) {
      if (!co_await signal.wait(milliseconds(5000))) co_return "lost one";
    }
    co_return "all";
  });
  EXPECT_EQ(answer, "all");
}

TEST_F(AsyncTest, ASignalMayBeNotifiedAfterItsWaiterHasEnded) {
  Signal kept;
  const std::string answer = answer_of([&kept]() -> Task<std::string> {
    (void)co_await kept.wait(milliseconds(1));
    co_return "ended";
  });
  EXPECT_EQ(answer, "ended");
  server_.reset();
  kept.notify();
}

}  // namespace
}  // namespace redpoll::http
