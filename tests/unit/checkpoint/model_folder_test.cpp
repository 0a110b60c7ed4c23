#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "checkpoint/checkpoint.h"
#include "unit/checkpoint/builders.h"

namespace redpoll::checkpoint {
namespace {

using ::testing::HasSubstr;
using testing::safetensors;
using testing::TemporaryFolder;

constexpr std::string_view kConfig = R"({"model_type":"llama","eos_token_id":2,"hidden_size":8})";
constexpr std::string_view kTokenizer = R"({"added_tokens":[
  {"id":1,"content":"<s>","special":true},{"id":2,"content":"</s>","special":true},
  {"id":9,"content":"<|im_end|>","special":true},{"id":10,"content":"<|eot_id|>","special":false}],
  "post_processor":{"type":"Sequence","processors":[{"type":"ByteLevel"},{"type":"TemplateProcessing",
    "single":[{"SpecialToken":{"id":"<s>","type_id":0}},{"Sequence":{"id":"A","type_id":0}}]}]},
  "model":{"type":"BPE","vocab":{"a":0,"pad":5}}})";

void write_model(const TemporaryFolder& folder, std::string_view config = kConfig) {
  folder.write("config.json", config);
  folder.write("model.safetensors", safetensors(R"({"w":{"dtype":"U8","shape":[2],"data_offsets":[0,2]}})", "xy"));
}

std::string message(const std::filesystem::path& path) {
  const auto checkpoint = open_checkpoint(path);
  return checkpoint ? "" : checkpoint.error().message;
}

TEST(OpenCheckpointTest, APathThatIsMissingListsNearMatches) {
  const TemporaryFolder folder;
  std::filesystem::create_directory(folder.path() / "Qwen3-0.6B");
  std::filesystem::create_directory(folder.path() / "gemma");
  const std::string base = folder.path().string();
  EXPECT_EQ(message(folder.path() / "qwen3-0.6b"), "no model at " + base + "/qwen3-0.6b; did you mean Qwen3-0.6B?");
  EXPECT_EQ(message(folder.path() / "Qwen3-0.8B/"), "no model at " + base + "/Qwen3-0.8B/; did you mean Qwen3-0.6B?");
  EXPECT_EQ(message(folder.path() / "zzzzzzzzzz"), "no model at " + base + "/zzzzzzzzzz");
  EXPECT_EQ(message(folder.path() / "no/such/parent"), "no model at " + base + "/no/such/parent");
  EXPECT_EQ(open_checkpoint(folder.path() / "nope").error().code, ErrorCode::kNotFound);
}

TEST(OpenCheckpointTest, AFolderWithoutConfigSaysSo) {
  const TemporaryFolder folder;
  const std::string base = folder.path().string();
  EXPECT_EQ(message(folder.path()), base + " holds no config.json, so it is not a model folder");
  folder.write("m.gguf", "");
  EXPECT_EQ(message(folder.path()),
            base + " holds no config.json, so it is not a model folder; to use m.gguf, give the path of that file");
}

TEST(OpenCheckpointTest, OtherFilesAreNotModels) {
  const TemporaryFolder folder;
  EXPECT_EQ(
      message(folder.write("w.safetensors", "")),
      (folder.path() / "w.safetensors").string() + " holds weights only; give the path of the folder that it is in");
  EXPECT_EQ(message(folder.write("notes.txt", "hello")),
            (folder.path() / "notes.txt").string() + ": not a GGUF file: it does not begin with 'GGUF'");
}

TEST(OpenCheckpointTest, ReadsEverythingAroundTheWeights) {
  const TemporaryFolder folder;
  write_model(folder);
  folder.write("tokenizer.json", kTokenizer);
  folder.write("tokenizer_config.json", R"({"bos_token":{"content":"<s>","lstrip":false},"eos_token":"</s>",
      "pad_token":"pad","unk_token":null,"chat_template":"x<|im_end|><|eot_id|>"})");
  folder.write("generation_config.json", R"({"do_sample":true,"temperature":0.6,"top_p":0.9,"top_k":-1,"min_p":0.1,
      "typical_p":0.5,"repetition_penalty":1.1,"max_new_tokens":100,"eos_token_id":[2,7]})");
  folder.write("README.md", "---\nlanguage: en\nlicense: apache-2.0\n---\nlicense: none\n");
  const auto checkpoint = open_checkpoint(folder.path());
  ASSERT_TRUE(checkpoint) << checkpoint.error().message;
  EXPECT_EQ(checkpoint->source_format, "safetensors");
  EXPECT_EQ(checkpoint->path, folder.path());
  EXPECT_EQ(checkpoint->name, folder.path().filename().string());
  EXPECT_EQ(checkpoint->license, "apache-2.0");
  EXPECT_EQ(checkpoint->parameters.names(), std::vector<std::string>{"w"});
  EXPECT_EQ(checkpoint->tokenizer_json, kTokenizer);
  EXPECT_EQ(checkpoint->chat_template, "x<|im_end|><|eot_id|>");
  const TokenizerInfo& info = checkpoint->tokenizer;
  EXPECT_EQ(info.bos->text, "<s>");
  EXPECT_EQ(info.bos->id, 1);
  EXPECT_EQ(info.eos->id, 2);
  EXPECT_EQ(info.pad->id, 5);
  EXPECT_FALSE(info.unk);
  EXPECT_TRUE(info.add_bos_token);
  EXPECT_FALSE(info.add_eos_token);
  EXPECT_EQ(info.eos_ids, (std::vector<TokenId>{2, 7, 9}));  // 10 is not special
  const GenerationDefaults& defaults = checkpoint->generation;
  EXPECT_EQ(defaults.do_sample, true);
  EXPECT_EQ(defaults.temperature, 0.6);
  EXPECT_EQ(defaults.top_p, 0.9);
  EXPECT_EQ(defaults.top_k, 0);
  EXPECT_EQ(defaults.min_p, 0.1);
  EXPECT_EQ(defaults.typical_p, 0.5);
  EXPECT_EQ(defaults.repetition_penalty, 1.1);
  EXPECT_EQ(defaults.max_new_tokens, 100);
}

TEST(OpenCheckpointTest, AFolderOfWeightsAloneOpensWithoutATokenizer) {
  const TemporaryFolder folder;
  write_model(folder);
  const auto checkpoint = open_checkpoint(folder.path());
  ASSERT_TRUE(checkpoint) << checkpoint.error().message;
  EXPECT_EQ(checkpoint->tokenizer_json, "");
  EXPECT_EQ(checkpoint->chat_template, std::nullopt);
  EXPECT_EQ(checkpoint->license, "");
  EXPECT_EQ(checkpoint->tokenizer.eos_ids, std::vector<TokenId>{2});
}

TEST(OpenCheckpointTest, ASentencePieceModelAloneSaysWhatToDo) {
  const TemporaryFolder folder;
  write_model(folder);
  folder.write("tokenizer.model", "x");
  const auto checkpoint = open_checkpoint(folder.path());
  ASSERT_FALSE(checkpoint);
  EXPECT_EQ(checkpoint.error().code, ErrorCode::kUnsupported);
  EXPECT_EQ(checkpoint.error().message,
            folder.path().string() +
                " has a SentencePiece tokenizer.model but no tokenizer.json; make one with "
                "AutoTokenizer.from_pretrained(folder).save_pretrained(folder) of the transformers library, or use a "
                "GGUF file of the model");
}

TEST(OpenCheckpointTest, TheTemplateComesFromTheFirstFileThatHasOne) {
  const TemporaryFolder folder;
  write_model(folder);
  const auto chat_template = [&] { return open_checkpoint(folder.path())->chat_template; };
  folder.write("chat_template.json", R"({"chat_template":"from json"})");
  EXPECT_EQ(chat_template(), "from json");
  folder.write("tokenizer_config.json", R"({"chat_template":"from config"})");
  EXPECT_EQ(chat_template(), "from config");
  folder.write("chat_template.jinja", "from jinja");
  EXPECT_EQ(chat_template(), "from jinja");
}

TEST(OpenCheckpointTest, NamedTemplatesNeedADefault) {
  const TemporaryFolder folder;
  write_model(folder);
  folder.write("tokenizer_config.json", R"({"chat_template":[{"name":"tool_use","template":"t"},
                                                             {"name":"default","template":"d"}]})");
  const auto both = open_checkpoint(folder.path());
  EXPECT_EQ(both->chat_template, "d");
  EXPECT_EQ(both->named_chat_templates.at("tool_use"), "t");
  folder.write("tokenizer_config.json", R"({"chat_template":[{"name":"rag","template":"r"}]})");
  EXPECT_EQ(open_checkpoint(folder.path())->chat_template, "r");
  const std::string prefix = (folder.path() / "tokenizer_config.json").string() + ": 'chat_template' ";
  folder.write("tokenizer_config.json",
               R"({"chat_template":[{"name":"a","template":"x"},{"name":"b","template":"y"}]})");
  EXPECT_EQ(message(folder.path()), prefix + "has several templates but none is named 'default'");
  folder.write("tokenizer_config.json", R"({"chat_template":[{"name":"a"}]})");
  EXPECT_EQ(message(folder.path()), prefix + "has an entry without 'name' and 'template'");
  folder.write("tokenizer_config.json", R"({"chat_template":7})");
  EXPECT_EQ(message(folder.path()), prefix + "must be a string or a list of named templates");
}

TEST(OpenCheckpointTest, BrokenFilesAreNamed) {
  const TemporaryFolder folder;
  const auto path = [&](const char* name) { return (folder.path() / name).string(); };
  write_model(folder, R"({"model_type":"llama","hidden_size":-1})");
  EXPECT_EQ(message(folder.path()),
            path("config.json") + ": 'hidden_size': expected a whole number from 1 to 1048576, got -1");
  write_model(folder, R"({"model_type":"llama","quantization_config":{"quant_method":"gptq"}})");
  EXPECT_THAT(message(folder.path()), HasSubstr(path("config.json") + ": 'quantization_config.quant_method'"));
  write_model(folder, "{");
  EXPECT_THAT(message(folder.path()), HasSubstr(path("config.json") + ": malformed JSON at byte 1"));
  write_model(folder);
  folder.write("generation_config.json", R"({"temperature":"hot"})");
  EXPECT_EQ(message(folder.path()),
            path("generation_config.json") + ": 'temperature': expected a number, got string \"hot\"");
  folder.write("generation_config.json", "[]");
  EXPECT_EQ(message(folder.path()), path("generation_config.json") + ": expected an object, got array");
  folder.write("tokenizer.json", "{");
  EXPECT_THAT(message(folder.path()), HasSubstr(path("tokenizer.json") + ": malformed JSON"));
  folder.write("tokenizer.json", "[]");
  EXPECT_EQ(message(folder.path()), path("tokenizer.json") + ": expected an object");
}

TEST(OpenCheckpointTest, TiedEmbeddingsFollowTheTensorsWhenTheConfigIsSilent) {
  const TemporaryFolder folder;
  write_model(folder);
  EXPECT_TRUE(open_checkpoint(folder.path())->config.tie_word_embeddings);
  folder.write("model.safetensors",
               safetensors(R"({"lm_head.weight":{"dtype":"U8","shape":[2],"data_offsets":[0,2]}})", "xy"));
  EXPECT_FALSE(open_checkpoint(folder.path())->config.tie_word_embeddings);
  folder.write("config.json", R"({"model_type":"llama","tie_word_embeddings":true})");
  EXPECT_TRUE(open_checkpoint(folder.path())->config.tie_word_embeddings);
}

TEST(FingerprintTest, ChangesWithConfigNamesTypesAndBytesAndWithNothingElse) {  // user case 58
  const TemporaryFolder folder;
  write_model(folder);
  const auto now = [&] { return open_checkpoint(folder.path())->fingerprint; };
  const std::string first = now();
  EXPECT_EQ(first.size(), 64U);
  folder.write("README.md", "changed");
  EXPECT_EQ(now(), first);
  std::vector<std::string> seen = {first};
  const auto expect_new = [&] {
    const std::string fresh = now();
    EXPECT_EQ(std::ranges::count(seen, fresh), 0);
    seen.push_back(fresh);
  };
  folder.write("config.json", R"({"model_type":"llama","eos_token_id":3,"hidden_size":8})");
  expect_new();
  for (const char* header : {R"({"v":{"dtype":"U8","shape":[2],"data_offsets":[0,2]}})",
                             R"({"v":{"dtype":"I8","shape":[2],"data_offsets":[0,2]}})",
                             R"({"v":{"dtype":"I8","shape":[1,2],"data_offsets":[0,2]}})"}) {
    folder.write("model.safetensors", safetensors(header, "xy"));
    expect_new();
    folder.write("model.safetensors", safetensors(header, "xz"));
    expect_new();
  }
}

TEST(FingerprintTest, LargeFilesAreSampledFromBothEnds) {
  const TemporaryFolder folder;
  const auto of = [&](std::size_t changed) {
    constexpr std::size_t kSize = 5'000'000;
    std::string data(kSize, 'x');
    data[changed] = 'y';
    folder.write("config.json", kConfig);
    folder.write("model.safetensors",
                 safetensors(R"({"w":{"dtype":"U8","shape":[5000000],"data_offsets":[0,5000000]}})", data));
    return open_checkpoint(folder.path())->fingerprint;
  };
  const std::string first = of(0);
  EXPECT_NE(of(4'999'999), first);
  EXPECT_EQ(of(0), first);
}

TEST(FingerprintTest, OfContentsSeesEveryByte) {  // user case 58
  const TemporaryFolder folder;
  folder.write("config.json", kConfig);
  constexpr std::size_t kSize = 5'000'000;
  std::string data(kSize, 'a');
  const auto open = [&] {
    folder.write("model.safetensors",
                 safetensors(R"({"w":{"dtype":"U8","shape":[5000000],"data_offsets":[0,5000000]}})", data));
    return open_checkpoint(folder.path());
  };
  const auto before = open();
  const std::string first = identity_of_contents(*before);
  int num_missed_by_samples = 0;
  for (std::size_t at = 10'000; at < kSize; at += kSize / 9) {
    data[at] = 'b';
    const auto changed = open();
    if (changed->fingerprint == before->fingerprint) ++num_missed_by_samples;
    EXPECT_NE(identity_of_contents(*changed), first) << at;
    data[at] = 'a';
  }
  EXPECT_GT(num_missed_by_samples, 0) << "what it is for";
  EXPECT_EQ(identity_of_contents(*open()), first);
}

}  // namespace
}  // namespace redpoll::checkpoint
