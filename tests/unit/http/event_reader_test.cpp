#include "http/event_reader.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "http/wire_format.h"

namespace redpoll::http {
namespace {

using ::testing::ElementsAre;
using ::testing::IsEmpty;

TEST(EventReader, ReadsWhatTheServerWrites) {
  EventReader reader;
  const std::string bytes =
      format_event("{\"a\": 1}", "") + format_comment("still here") + format_event("two\nlines", "delta");
  EXPECT_THAT(reader.feed(bytes), ElementsAre("{\"a\": 1}", "two\nlines"));
}

TEST(EventReader, PiecesMayEndAnywhere) {
  const std::string bytes = "data: first\r\n\r\ndata:second\n\n";
  for (std::size_t cut = 0; cut <= bytes.size(); ++cut) {
    EventReader reader;
    std::vector<std::string> events = reader.feed(bytes.substr(0, cut));
    for (std::string& event : reader.feed(bytes.substr(cut))) events.push_back(std::move(event));
    EXPECT_THAT(events, ElementsAre("first", "second")) << "cut at " << cut;
  }
}

TEST(EventReader, AnEventIsNotThereBeforeItsEmptyLine) {
  EventReader reader;
  EXPECT_THAT(reader.feed("data: x\n"), IsEmpty());
  EXPECT_THAT(reader.feed("\n"), ElementsAre("x"));
  EXPECT_THAT(reader.feed("\n\nevent: y\nid: 3\n\n"), IsEmpty());
}

TEST(EventReader, AnEmptyDataFieldIsAnEvent) {
  EventReader reader;
  EXPECT_THAT(reader.feed("data:\n\n"), ElementsAre(""));
}

}  // namespace
}  // namespace redpoll::http
