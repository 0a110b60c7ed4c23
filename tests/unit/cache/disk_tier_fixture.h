// A disk tier in a folder of its own, and what one does with it.
#pragma once

#include <gtest/gtest.h>
#include <sys/types.h>

#include <chrono>
#include <filesystem>
#include <memory>
#include <optional>
#include <string_view>
#include <thread>

#include "cache/disk_tier.h"
#include "unit/cache/disk_fixture.h"

namespace redpoll::cache {

namespace fs = std::filesystem;

inline constexpr std::size_t kPayloadBytes = 1'000;
inline constexpr std::uint64_t kFileBytes = 4096 + kPayloadBytes;

/// Two runs and three tokens more.
inline const Tokens kText = {1, 1, 1, 1, 2, 2, 2, 2, 3, 4, 5};
inline constexpr uid_t kNobody = 65534;

/// How often it says so.
inline int count_of(std::string_view text, std::string_view what) {
  int count = 0;
  for (std::size_t at = 0; (at = text.find(what, at)) != std::string_view::npos; ++at) ++count;
  return count;
}

class DiskTierFixture : public testing::Test {
 protected:
  [[nodiscard]] std::unique_ptr<DiskTier> open() const {
    auto tier = DiskTier::open(options_, [] {});
    if (!tier) ADD_FAILURE() << tier.error().message;
    return tier ? *std::move(tier) : nullptr;
  }
  [[nodiscard]] static bool flush(DiskTier& tier) {
    return tier.flush(std::chrono::steady_clock::now() + std::chrono::seconds(60));
  }
  /// All files of the text, and waits for them.
  static void write(DiskTier& tier, const Tokens& text, const std::string& fingerprint = kFingerprint) {
    for (const StoredHead& head : heads_of(text, fingerprint)) {
      EXPECT_TRUE(tier.write(head, payload_of(head, kPayloadBytes)));
    }
    EXPECT_TRUE(flush(tier));
  }
  /// False after a minute.
  static bool wait_until(const auto& condition) {
    for (int i = 0; i < 60'000; ++i) {
      if (condition()) return true;
      std::this_thread::sleep_for(std::chrono::milliseconds(1));
    }
    return false;
  }
  [[nodiscard]] static Result<StoredFile> read(DiskTier& tier, StoredKind kind, const ContentKey& key) {
    tier.read(7, kind, key);
    std::vector<DiskTier::Restored> restored;
    EXPECT_TRUE(wait_until([&] { return !(restored = tier.take_restored()).empty(); }));
    if (restored.size() != 1 || restored[0].id != 7) return fail(ErrorCode::kInternal, "expected one answer");
    return std::move(restored[0].file);
  }
  /// Reads each of the text's files and compares it with what was written.
  static void expect_restored(DiskTier& tier, const Tokens& text) {
    for (const StoredHead& head : heads_of(text)) {
      const auto file = read(tier, head.kind, head.key);
      ASSERT_TRUE(file) << file.error().message;
      EXPECT_EQ(file->head, head);
      EXPECT_EQ(file->payload, payload_of(head, kPayloadBytes));
    }
  }

  [[nodiscard]] std::filesystem::path folder(const std::string& fingerprint = kFingerprint) const {
    return options_.directory / folder_name(fingerprint);
  }
  [[nodiscard]] static std::string name_of(const StoredHead& head) { return file_name(head.kind, head.key); }
  /// In the whole directory.
  [[nodiscard]] int num_files() const {
    int count = 0;
    for (const auto& entry : std::filesystem::recursive_directory_iterator(options_.directory)) {
      count += entry.is_regular_file() ? 1 : 0;
    }
    return count;
  }

  TemporaryFolder temporary_;
  DiskTierOptions options_{.directory = temporary_.path() / "cache",
                           .max_bytes = 1ULL << 30U,
                           .verify = true,
                           .fingerprint = kFingerprint,
                           .run_tokens = kRunTokens,
                           .max_queued_bytes = 64U << 20U};
};

}  // namespace redpoll::cache
