// Replays the fuzz corpus of request bodies, whole, cut short and damaged. The target aborts when a property fails.
#include <gtest/gtest.h>

#include <filesystem>
#include <random>

#include "base/file.h"
#include "fuzz/fuzz_chat_request.cpp"  // NOLINT(bugprone-suspicious-include): one target, two runners

namespace redpoll::api {
namespace {

void replay(std::string_view text) {
  EXPECT_EQ(LLVMFuzzerTestOneInput(reinterpret_cast<const std::uint8_t*>(text.data()), text.size()), 0);
}

TEST(RequestCorpus, EveryBodyWholeCutShortOrDamagedIsAnsweredOrRefused) {
  std::mt19937 random(1);
  int num_files = 0;
  for (const auto& entry : std::filesystem::directory_iterator(REDPOLL_TEST_DATA "/fuzz/corpus/chat_request")) {
    const auto content = read_file(entry.path());
    ASSERT_TRUE(content.has_value()) << entry.path();
    ++num_files;
    replay(*content);
    for (std::size_t length = 0; length < content->size(); ++length) replay(content->substr(0, length));
    for (int i = 0; i < 300; ++i) {
      std::string damaged = *content;
      damaged[random() % damaged.size()] = static_cast<char>(random());
      replay(damaged);
    }
  }
  EXPECT_GE(num_files, 10);
}

}  // namespace
}  // namespace redpoll::api
