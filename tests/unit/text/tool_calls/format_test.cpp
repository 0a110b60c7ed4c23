#include "text/tool_calls/format.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <cstdlib>
#include <map>

#include "unit/server/tiny_tokenizer.h"
#include "unit/text/golden.h"

namespace redpoll::text {
namespace {

using testing::ElementsAre;
using Format = ToolCallFormat;

TEST(ToolCallFormat, IsWhatTheTemplateShows) {
  EXPECT_EQ(tool_call_format(R"({{- "\n<tool_call>\n{\"name\": <function-name>, \"arguments\": <object>}" }})"),
            Format::kJson);
  EXPECT_EQ(tool_call_format(R"({{- "<tool_call>\n" }}{{- '{"arguments": <object>, "name": <name>}' }})"),
            Format::kJson);
  EXPECT_EQ(tool_call_format("<tool_call>\n{'name': x}\n</tool_call>"), Format::kJson);
  EXPECT_EQ(tool_call_format(R"({{ '\n<tool_call>\n<function=f>\n<parameter=p>\nv\n</parameter>' }})"),
            Format::kFunctionTags);
  EXPECT_EQ(tool_call_format(R"({{ '<tool_call>\n<function=' + name }}{{ '<parameter=' }}{"name": 1})"),
            Format::kFunctionTags);
  EXPECT_EQ(tool_call_format(R"({{ '<function name="f"><param name="p">v</param></function>' }})"), Format::kNamedTags);
  EXPECT_EQ(tool_call_format(R"({{ "<function name=\"" ~ f ~ "\"><param name=\"" }})"), Format::kNamedTags);
}

TEST(ToolCallFormat, IsNoneWithoutMarkupThatCanBeRead) {
  for (const std::string_view source :
       {"", "{{ tools }}", "{{ message.content }}", "<tool_call>{function-name}\\n<arg_key>{arg-key}</arg_key>",
        "{{ '<tool_call>' + call.name }}{\"name\": 1}", "<function={{ name }}>{{ arguments }}</function>",
        R"(json objects within <tool_call></tool_call> tags, with "name" and "arguments")", "<tool_call>{\"names\"",
        "<function name=\"f\">", "\\"}) {
    EXPECT_EQ(tool_call_format(source), std::nullopt) << source;
  }
}

TEST(ToolCallFormat, OfTheTemplatesOfOurTests) {
  std::map<std::string, std::optional<Format>> formats;
  for (const auto& file : std::filesystem::directory_iterator(golden_path("templates"))) {
    const std::string name = file.path().filename();
    formats[name] = tool_call_format(read_golden("templates/" + name));
  }
  EXPECT_EQ(formats.size(), 10U);
  EXPECT_EQ(formats["hermes_like.jinja"], Format::kJson);
  EXPECT_EQ(formats["qwen3_like.jinja"], Format::kJson);
  const auto num_found = std::ranges::count_if(formats, [](const auto& entry) { return entry.second.has_value(); });
  EXPECT_EQ(num_found, 2);
}

// A developer's check, as ChatTemplateTest.RendersRealTemplatesAsJinja2Does is; what they show was read by eye.
TEST(ToolCallFormat, OfRealTemplates) {
  const char* folder = std::getenv("REDPOLL_REAL_TEMPLATES");
  if (folder == nullptr) GTEST_SKIP() << "REDPOLL_REAL_TEMPLATES names no folder";
  const std::map<std::string, Format> expected = {
      {"Bielik-11B-v3.0-Instruct.jinja", Format::kJson},
      {"MiMo-VL.jinja", Format::kJson},
      {"NVIDIA-Nemotron-3-Nano-30B-A3B-BF16.jinja", Format::kFunctionTags},
      {"NousResearch-Hermes-2-Pro-Llama-3-8B-tool_use.jinja", Format::kJson},
      {"NousResearch-Hermes-3-Llama-3.1-8B-tool_use.jinja", Format::kJson},
      {"Qwen-QwQ-32B.jinja", Format::kJson},
      {"Qwen-Qwen2.5-7B-Instruct.jinja", Format::kJson},
      {"Qwen-Qwen3-0.6B.jinja", Format::kJson},
      {"Qwen3-Coder.jinja", Format::kFunctionTags},
      {"Qwen3.5-4B.jinja", Format::kFunctionTags},
      {"Reka-Edge.jinja", Format::kJson},
      {"StepFun3.5-Flash.jinja", Format::kFunctionTags},
      {"ibm-granite-granite-4.0.jinja", Format::kJson},
      {"ibm-granite-granite-4.1.jinja", Format::kJson},
      {"openbmb-MiniCPM5-1B.jinja", Format::kNamedTags}};
  std::map<std::string, Format> found;
  for (const auto& file : std::filesystem::directory_iterator(folder)) {
    if (file.path().extension() != ".jinja") continue;
    const auto format = tool_call_format(read_file(file.path()).value());
    if (format) found[file.path().filename()] = *format;
  }
  EXPECT_EQ(found, expected);
}

TEST(ToolCallFormat, ItsSpecialTokensAreThoseOfItsMarkup) {
  const auto tokenizer =
      server::tiny_tokenizer({"</function>", "tool"}, {"<function", "</param>", "<tool_call>", "<param"});
  const TokenId first = server::kFirstExtraToken + 2;  // those that are not special
  EXPECT_THAT(tool_call_markup_ids(Format::kNamedTags, *tokenizer), ElementsAre(first, first + 1, first + 3));
  EXPECT_THAT(tool_call_markup_ids(Format::kJson, *tokenizer), ElementsAre(first + 2));
}

}  // namespace
}  // namespace redpoll::text
