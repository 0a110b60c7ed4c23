#include "engine/event_queue.h"

#include <gmock/gmock.h>

#include <new>
#include <thread>

namespace redpoll::engine {
namespace {

TokenEvent token(TokenId id) { return {.choice = 0, .id = id, .logprob = 0, .top = {}}; }

TEST(EventQueueTest, GivesEventsInOrder) {
  EventQueue queue(nullptr);
  EXPECT_TRUE(queue.take().empty());
  queue.push(token(1));
  queue.push(token(2));
  const auto events = queue.take();
  ASSERT_EQ(events.size(), 2U);
  EXPECT_EQ(std::get<TokenEvent>(events[0]).id, 1);
  EXPECT_EQ(std::get<TokenEvent>(events[1]).id, 2);
  EXPECT_TRUE(queue.take().empty());
}

TEST(EventQueueTest, CallsTheConsumerOnceBetweenTakes) {
  int num_calls = 0;
  EventQueue queue([&] { ++num_calls; });
  queue.push(token(1));
  queue.push(token(2));
  EXPECT_EQ(num_calls, 1);
  (void)queue.take();
  queue.push(token(3));
  EXPECT_EQ(num_calls, 2);
}

TEST(EventQueueTest, MayBeTakenFromWithinTheCall) {
  EventQueue* self = nullptr;
  std::size_t num_taken = 0;
  EventQueue queue([&] { num_taken += self->take().size(); });
  self = &queue;
  queue.push(token(1));
  EXPECT_EQ(num_taken, 1U);
}

TEST(EventQueueTest, HasRoomUpToItsCapacity) {
  EventQueue queue(nullptr, 2);
  EXPECT_TRUE(queue.has_room(2));
  queue.push(token(1));
  EXPECT_TRUE(queue.has_room(1));
  EXPECT_FALSE(queue.has_room(2));
  queue.push(token(2));
  EXPECT_FALSE(queue.has_room(1));
  queue.push(FinishEvent{});
  EXPECT_EQ(queue.take().size(), 3U) << "the last event always gets through";
}

TEST(EventQueueTest, MoreThanItHoldsFitsWhenItIsEmpty) {
  EventQueue queue(nullptr, 2);
  EXPECT_TRUE(queue.has_room(5));
  queue.push(token(1));
  EXPECT_FALSE(queue.has_room(5));
}

TEST(EventQueueTest, TellsTheEngineAboutRoomOnlyIfItWasDenied) {
  int num_calls = 0;
  EventQueue queue(nullptr, 1);
  queue.set_on_room([&] { ++num_calls; });
  queue.push(token(1));
  (void)queue.take();
  EXPECT_EQ(num_calls, 0);
  queue.push(token(2));
  EXPECT_FALSE(queue.has_room(1));
  (void)queue.take();
  EXPECT_EQ(num_calls, 1);
  (void)queue.take();
  EXPECT_EQ(num_calls, 1);
}

TEST(EventQueueTest, RingsAgainWhenTheConsumerCouldNotBeCalled) {
  int num_calls = 0;
  EventQueue queue([&] {
    if (++num_calls < 3) throw std::bad_alloc();
  });
  EXPECT_FALSE(queue.push(token(1)));
  EXPECT_FALSE(queue.push(token(2)));
  EXPECT_TRUE(queue.ring());
  EXPECT_TRUE(queue.ring()) << "it knows";
  EXPECT_EQ(num_calls, 3);
  EXPECT_EQ(queue.take().size(), 2U);
}

TEST(EventQueueTest, BrokenOffItGivesWhatItHasAndThenOneError) {
  int num_calls = 0;
  EventQueue queue([&] { ++num_calls; });
  queue.push(token(1));
  EXPECT_FALSE(queue.is_broken_off());
  queue.break_off("no memory");
  queue.break_off("another reason");
  EXPECT_TRUE(queue.is_broken_off());
  queue.push(token(2));
  const auto events = queue.take();
  ASSERT_EQ(events.size(), 2U);
  EXPECT_EQ(std::get<TokenEvent>(events[0]).id, 1);
  EXPECT_EQ(std::get<ErrorEvent>(events[1]).error.code, ErrorCode::kUnavailable);
  EXPECT_EQ(std::get<ErrorEvent>(events[1]).error.message, "no memory");
  EXPECT_TRUE(queue.take().empty());
  EXPECT_TRUE(queue.ring());
  EXPECT_EQ(num_calls, 1);
}

TEST(EventQueueTest, BrokenOffWhenEmptyItRings) {
  int num_calls = 0;
  EventQueue queue([&] { ++num_calls; });
  queue.break_off("no memory");
  EXPECT_TRUE(queue.ring());
  EXPECT_EQ(num_calls, 1);
  EXPECT_EQ(queue.take().size(), 1U);
}

TEST(EventQueueTest, LosesNothingBetweenTwoThreads) {
  EventQueue queue(nullptr, 4);
  constexpr int kNumEvents = 2000;
  std::thread producer([&] {
    for (int i = 0; i < kNumEvents;) {
      if (queue.has_room(1)) {
        queue.push(token(i++));
      } else {
        std::this_thread::yield();
      }
    }
  });
  int next = 0;
  while (next < kNumEvents) {
    for (const auto& event : queue.take()) EXPECT_EQ(std::get<TokenEvent>(event).id, next++);
    std::this_thread::yield();
  }
  producer.join();
}

}  // namespace
}  // namespace redpoll::engine
