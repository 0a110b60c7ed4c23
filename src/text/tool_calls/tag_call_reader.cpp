// <tool_call><function=NAME><parameter=KEY>VALUE</parameter></function></tool_call> and
// <function name="NAME"><param name="KEY">VALUE</param></function>: one reader, because they differ in spelling only.
#include <unordered_map>
#include <utility>
#include <vector>

#include "base/json.h"
#include "text/tool_calls/argument_text.h"
#include "text/tool_calls/call_reader.h"

namespace redpoll::text {
namespace {

// Patterns, but for `value_end`, which is found as it is. A name ends at the quote that began it, or at '>'.
struct TagSyntax {
  std::string_view call_begin;       // up to the tool's name
  std::string_view parameter_begin;  // up to the parameter's name
  std::string_view value_end;
  std::string_view call_end;
};

constexpr TagSyntax kFunctionTags{.call_begin = "<tool_call> <function=",
                                  .parameter_begin = " <parameter=",
                                  .value_end = "</parameter>",
                                  .call_end = " </function> </tool_call>"};
// The space before `name` may be missing: the tokens of the tags take those that follow them when a prompt is encoded,
// so some models have never seen one.
constexpr TagSyntax kNamedTags{.call_begin = "<function name = \"",
                               .parameter_begin = " <param name = \"",
                               .value_end = "</param>",
                               .call_end = " </function>"};

class TagCallReader final : public CallReader {
 public:
  TagCallReader(ToolCallFormat format, std::shared_ptr<const ToolSchemas> tools)
      : syntax_(format == ToolCallFormat::kNamedTags ? kNamedTags : kFunctionTags),
        has_sections_(format == ToolCallFormat::kNamedTags),
        tools_(std::move(tools)) {}

  void start() override {
    state_ = State::kCallBegin;
    tag_ = Pattern(syntax_.call_begin);
    tool_.clear();
    arguments_.clear();
    places_.clear();
  }

  Step push(char byte) override {
    switch (state_) {
      case State::kCallBegin: return push_tag_begin(byte, State::kTool);
      case State::kTool: return push_name(byte, tool_);
      case State::kBetween: return push_between(byte);
      case State::kParameter: return push_name(byte, parameter_);
      case State::kTagEnd: return push_tag_end(byte);
      case State::kValue: break;
    }
    return push_value(byte);
  }

  ToolCall take() override {
    std::string object = "{";
    for (const auto& [parameter, value] : arguments_) {
      if (object.size() > 1) object += ',';
      object += dump_json(json::value(json::string(parameter))) + ':' + value;
    }
    return {.name = std::move(tool_), .arguments = object + '}'};
  }

 private:
  enum class State { kCallBegin, kTool, kBetween, kParameter, kTagEnd, kValue };

  Step push_tag_begin(char byte, State name) {
    const Step step = tag_.push(byte);
    if (step != Step::kComplete) return step;
    name_end_ = byte == '"' || byte == '\'' ? byte : '>';
    state_ = name;
    return Step::kMore;
  }

  // What names no tool is no call, so nothing of its markup is held back any longer.
  Step push_name(char byte, std::string& name) {
    if (byte != name_end_) {
      name += byte;
      const bool is_control = static_cast<unsigned char>(byte) < ' ';
      const bool goes_on = state_ == State::kTool ? tools_->contains_prefix(name) : !is_control && byte != '<';
      return goes_on ? Step::kMore : Step::kFailed;
    }
    const bool is_known = state_ == State::kTool ? tools_->contains(name) : !name.empty();
    if (!is_known) return Step::kFailed;
    after_tag_ = state_ == State::kTool ? State::kBetween : State::kValue;
    state_ = State::kTagEnd;
    tag_ = Pattern(" >");
    return byte == '>' ? push_tag_end(byte) : Step::kMore;
  }

  Step push_tag_end(char byte) {
    const Step step = tag_.push(byte);
    if (step != Step::kComplete) return step;
    if (after_tag_ == State::kBetween) {
      expect_parameter_or_end();
    } else {
      state_ = State::kValue;
      value_.clear();
      section_begin_ = kNoSection;
    }
    return Step::kMore;
  }

  void expect_parameter_or_end() {
    state_ = State::kBetween;
    tag_ = Pattern(syntax_.parameter_begin);
    end_ = Pattern(syntax_.call_end);
    is_parameter_ = is_end_ = true;
    parameter_.clear();
  }

  Step push_between(char byte) {
    if (is_end_) {
      const Step step = end_.push(byte);
      if (step == Step::kComplete) return step;
      is_end_ = step == Step::kMore;
    }
    if (is_parameter_) is_parameter_ = push_tag_begin(byte, State::kParameter) == Step::kMore;
    return is_end_ || is_parameter_ ? Step::kMore : Step::kFailed;
  }

  Step push_value(char byte) {
    value_ += byte;
    if (has_sections_ && push_in_sections(byte)) return Step::kMore;
    if (byte != '>' || !value_.ends_with(syntax_.value_end)) return Step::kMore;
    value_.resize(value_.size() - syntax_.value_end.size());
    const std::string text = has_sections_ ? xml_text(value_) : std::string(between_lines(value_));
    const std::string_view written = has_sections_ ? std::string_view(value_) : std::string_view(text);
    set_argument(tools_->decode(tool_, parameter_, {.written = written, .text = text}));
    expect_parameter_or_end();
    return Step::kMore;
  }

  // Of a parameter that comes twice, the place of the first and the value of the last.
  void set_argument(std::string value) {
    const auto [place, is_new] = places_.try_emplace(parameter_, arguments_.size());
    if (is_new) arguments_.emplace_back(parameter_, std::string());
    arguments_[place->second].second = std::move(value);
  }

  // Whether the byte belongs to a CDATA section, in which no tag ends the value.
  bool push_in_sections(char byte) {
    if (section_begin_ == kNoSection) {
      if (byte != '[' || !value_.ends_with(kSectionBegin)) return false;
      section_begin_ = value_.size();
      return true;
    }
    const bool ends = byte == '>' && std::string_view(value_).substr(section_begin_).ends_with(kSectionEnd);
    if (ends) section_begin_ = kNoSection;
    return true;
  }

  static constexpr std::size_t kNoSection = std::string::npos;

  const TagSyntax& syntax_;
  bool has_sections_;
  std::shared_ptr<const ToolSchemas> tools_;
  State state_ = State::kCallBegin;
  State after_tag_ = State::kBetween;
  Pattern tag_;  // the one that is being read
  Pattern end_;  // of the call, while it may follow
  bool is_parameter_ = false;
  bool is_end_ = false;
  char name_end_ = '>';
  std::string tool_;
  std::string parameter_;
  std::string value_;
  std::size_t section_begin_ = kNoSection;
  std::vector<std::pair<std::string, std::string>> arguments_;  // parameters and the JSON text of their values
  std::unordered_map<std::string, std::size_t> places_;         // of parameters in arguments_
};

}  // namespace

std::unique_ptr<CallReader> make_tag_call_reader(ToolCallFormat format, std::shared_ptr<const ToolSchemas> tools) {
  return std::make_unique<TagCallReader>(format, std::move(tools));
}

}  // namespace redpoll::text
