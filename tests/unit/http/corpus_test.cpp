// Replays the fuzz corpus of requests, whole, cut short and damaged. The target aborts when a property fails.
#include <gtest/gtest.h>

#include <filesystem>
#include <random>

#include "base/file.h"
#include "fuzz/fuzz_http_request.cpp"  // NOLINT(bugprone-suspicious-include): one target, two runners

namespace redpoll::http {
namespace {

void replay(std::string_view bytes) {
  EXPECT_EQ(LLVMFuzzerTestOneInput(reinterpret_cast<const std::uint8_t*>(bytes.data()), bytes.size()), 0);
}

TEST(HttpCorpus, EveryRequestWholeCutShortOrDamagedIsReadOrRefused) {
  std::mt19937 random(1);
  int num_files = 0;
  for (const auto& entry : std::filesystem::directory_iterator(REDPOLL_TEST_DATA "/fuzz/corpus/http_request")) {
    const auto content = read_file(entry.path());
    ASSERT_TRUE(content.has_value()) << entry.path();
    ++num_files;
    for (std::size_t length = 0; length <= content->size(); ++length) replay(content->substr(0, length));
    for (int i = 0; i < 300; ++i) {
      std::string damaged = *content;
      damaged[random() % damaged.size()] = static_cast<char>(random());
      replay(damaged);
    }
  }
  EXPECT_GE(num_files, 7);
}

}  // namespace
}  // namespace redpoll::http
