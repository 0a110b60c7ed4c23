#include "server/model_locator.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <fstream>
#include <random>

namespace redpoll::server {
namespace {

namespace fs = std::filesystem;
using ::testing::HasSubstr;

class ModelLocatorTest : public ::testing::Test {
 protected:
  ModelLocatorTest()
      : root_(fs::path(::testing::TempDir()) / ("redpoll_locator_" + std::to_string(std::random_device{}()))) {
    places_.hub_cache = root_ / "hub";
    places_.starter_folder = root_ / "starter";
    fs::create_directories(places_.hub_cache);
  }
  ~ModelLocatorTest() override { fs::remove_all(root_); }

  static void write(const fs::path& path, const std::string& content) {
    fs::create_directories(path.parent_path());
    std::ofstream(path) << content;
  }
  void add_repository(const std::string& folder, const std::string& file = "config.json") const {
    write(places_.hub_cache / folder / "refs" / "main", "abc123\n");
    write(places_.hub_cache / folder / "snapshots" / "abc123" / file, "{}");
  }

  fs::path root_;
  ModelPlaces places_;
};

TEST_F(ModelLocatorTest, FolderWithConfigIsNamedAfterItself) {
  write(root_ / "tiny-llama" / "config.json", "{}");
  for (const std::string suffix : {"", "/"}) {
    const auto location = locate_model((root_ / "tiny-llama").string() + suffix, places_);
    ASSERT_TRUE(location) << location.error().message;
    EXPECT_EQ(location->name, "tiny-llama");
  }
}

TEST_F(ModelLocatorTest, GgufFileIsNamedByItsStem) {
  write(root_ / "Tiny-1B.Q4_0.gguf", "");
  const auto location = locate_model((root_ / "Tiny-1B.Q4_0.gguf").string(), places_);
  ASSERT_TRUE(location);
  EXPECT_EQ(location->name, "Tiny-1B.Q4_0");
  EXPECT_EQ(location->path, root_ / "Tiny-1B.Q4_0.gguf");
}

TEST_F(ModelLocatorTest, NamesCanBePrintedWhateverFilesAreCalled) {
  const fs::path path = root_ / "m\x1B[31m\xFF.gguf";
  write(path, "");
  const auto location = locate_model(path.string(), places_);
  ASSERT_TRUE(location);
  EXPECT_EQ(location->name, "m\\x1b[31m\xEF\xBF\xBD");
  EXPECT_EQ(location->path, path);
}

TEST_F(ModelLocatorTest, FolderWithOneGgufFileMeansThatFile) {
  write(root_ / "one" / "model.gguf", "");
  const auto location = locate_model((root_ / "one").string(), places_);
  ASSERT_TRUE(location);
  EXPECT_EQ(location->path, root_ / "one" / "model.gguf");
}

TEST_F(ModelLocatorTest, FolderWithSeveralGgufFilesListsThem) {
  write(root_ / "two" / "a.gguf", "");
  write(root_ / "two" / "b.gguf", "");
  const auto location = locate_model((root_ / "two").string(), places_);
  ASSERT_FALSE(location);
  EXPECT_EQ(location.error().code, ErrorCode::kModelNotFound);
  EXPECT_EQ(location.error().message,
            "folder '" + (root_ / "two").string() + "' has several .gguf files, name one of them: a.gguf, b.gguf");
}

TEST_F(ModelLocatorTest, FolderWithoutAModelSaysWhatIsMissing) {
  fs::create_directories(root_ / "empty");
  const auto location = locate_model((root_ / "empty").string(), places_);
  ASSERT_FALSE(location);
  EXPECT_EQ(location.error().message,
            "folder '" + (root_ / "empty").string() + "' is not a model: it has neither config.json nor a .gguf file");
}

TEST_F(ModelLocatorTest, OtherFilesAreNotModels) {
  write(root_ / "notes.txt", "");
  const auto location = locate_model((root_ / "notes.txt").string(), places_);
  ASSERT_FALSE(location);
  EXPECT_EQ(location.error().message, "'" + (root_ / "notes.txt").string() +
                                          "' is not a model: expected a folder with config.json or a .gguf file");
}

TEST_F(ModelLocatorTest, RepositoryIdAndAUniquePartOfItAreFoundInTheCache) {
  add_repository("models--Qwen--Qwen3-0.6B");
  add_repository("models--mlx-community--gemma-3-1b");
  for (const std::string name : {"Qwen/Qwen3-0.6B", "qwen3", "0.6b"}) {
    const auto location = locate_model(name, places_);
    ASSERT_TRUE(location) << name << ": " << location.error().message;
    EXPECT_EQ(location->name, "Qwen/Qwen3-0.6B");
    EXPECT_EQ(location->path, places_.hub_cache / "models--Qwen--Qwen3-0.6B" / "snapshots" / "abc123");
  }
}

TEST_F(ModelLocatorTest, ExactIdWinsOverIdsThatContainIt) {
  add_repository("models--org--tiny");
  add_repository("models--org--tiny-instruct");
  const auto location = locate_model("org/tiny", places_);
  ASSERT_TRUE(location) << location.error().message;
  EXPECT_EQ(location->name, "org/tiny");
}

TEST_F(ModelLocatorTest, PartOfSeveralIdsListsThem) {
  add_repository("models--org--tiny-a");
  add_repository("models--org--tiny-b");
  const auto location = locate_model("tiny", places_);
  ASSERT_FALSE(location);
  EXPECT_EQ(location.error().message,
            "'tiny' is part of several cached models, name one of them: org/tiny-a, org/tiny-b");
}

TEST_F(ModelLocatorTest, UnknownNameListsNearMatchesAndServesNothingElse) {
  add_repository("models--Qwen--Qwen3-0.6B");
  add_repository("models--org--other");
  write(places_.starter_folder / "x" / "starter.gguf", "");
  const auto location = locate_model("Qwen/Qwen3-0.8B", places_);
  ASSERT_FALSE(location);
  EXPECT_EQ(location.error().code, ErrorCode::kModelNotFound);
  EXPECT_EQ(location.error().message,
            "no model 'Qwen/Qwen3-0.8B': expected a folder with config.json, a .gguf file, or a repository in the "
            "Hugging Face cache " +
                places_.hub_cache.string() + "; near matches: Qwen/Qwen3-0.6B");
}

TEST_F(ModelLocatorTest, UnknownNameWithAnEmptyCacheSaysSo) {
  const auto location = locate_model("org/none", places_);
  ASSERT_FALSE(location);
  EXPECT_THAT(location.error().message, HasSubstr("(which is empty)"));
}

TEST_F(ModelLocatorTest, RepositoryWithoutASnapshotAsksForTheDownloadAgain) {
  fs::create_directories(places_.hub_cache / "models--org--half" / "snapshots");
  const auto location = locate_model("org/half", places_);
  ASSERT_FALSE(location);
  EXPECT_THAT(location.error().message, HasSubstr("without a usable snapshot"));
  EXPECT_THAT(location.error().message, HasSubstr("download it again"));
}

TEST_F(ModelLocatorTest, NoModelMeansTheDefaultAndThenTheStarterModel) {
  write(places_.starter_folder / "wheel" / "Starter.Q4_1.gguf", "");
  auto location = locate_model("", places_);
  ASSERT_TRUE(location) << location.error().message;
  EXPECT_EQ(location->name, "Starter.Q4_1");

  add_repository("models--org--tiny");
  places_.default_model = "org/tiny";
  location = locate_model("", places_);
  ASSERT_TRUE(location) << location.error().message;
  EXPECT_EQ(location->name, "org/tiny");
}

TEST_F(ModelLocatorTest, NoModelAtAllSaysHowToGetOne) {
  const auto location = locate_model("", places_);
  ASSERT_FALSE(location);
  EXPECT_THAT(location.error().message, HasSubstr("no model given, REDPOLL_MODEL is not set"));
  EXPECT_THAT(location.error().message, HasSubstr("scripts/setup"));
}

}  // namespace
}  // namespace redpoll::server
