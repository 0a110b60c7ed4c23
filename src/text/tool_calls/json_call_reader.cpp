// <tool_call>{"name": NAME, "arguments": {...}}</tool_call>
#include <optional>

#include "base/json.h"
#include "text/tool_calls/call_reader.h"
#include "text/tool_calls/json_text.h"

namespace redpoll::text {
namespace {

// Finds the end of a JSON object that arrives byte by byte. It lets through only what can stand in one, so that markup
// which goes wrong is seen where it does; the rest is left to the parser.
class ObjectEnd {
 public:
  CallReader::Step push(char byte) {
    if (in_string_) return push_in_string(byte);
    switch (byte) {
      case '"': in_string_ = true; return CallReader::Step::kMore;
      case '{':
      case '[': ++depth_; return CallReader::Step::kMore;
      case '}':
      case ']': return --depth_ == 0 ? CallReader::Step::kComplete : CallReader::Step::kMore;
      default: return is_outside_strings(byte) ? CallReader::Step::kMore : CallReader::Step::kFailed;
    }
  }

 private:
  CallReader::Step push_in_string(char byte) {
    if (static_cast<unsigned char>(byte) < ' ') return CallReader::Step::kFailed;
    if (after_backslash_) {
      after_backslash_ = false;
    } else if (byte == '\\') {
      after_backslash_ = true;
    } else if (byte == '"') {
      in_string_ = false;
    }
    return CallReader::Step::kMore;
  }

  static bool is_outside_strings(char byte) {
    const bool in_word = (byte >= 'a' && byte <= 'z') || byte == 'E' || (byte >= '0' && byte <= '9');
    return in_word || is_space(byte) || byte == ',' || byte == ':' || byte == '.' || byte == '+' || byte == '-';
  }

  std::size_t depth_ = 0;
  bool in_string_ = false;
  bool after_backslash_ = false;
};

// The value that `text` is of, as the text of an object. Some models write the arguments as text that holds the object.
std::optional<std::string> object_text(const json::value& value, std::string_view text) {
  if (value.is_null()) return "{}";
  if (value.is_object()) return std::string(text);
  if (!value.is_string()) return std::nullopt;
  const Result<json::value> inner = parse_json(value.get_string());
  if (!inner || !inner->is_object()) return std::nullopt;
  return compact_json(value.get_string());
}

// Of a call, whose `text` is compact. Nothing if they go by a name that nobody knows, or by two: a call without the
// arguments that the model wrote would be another call.
std::optional<std::string> read_arguments(const json::object& call, std::string_view text) {
  const bool has_arguments = call.contains("arguments");
  const bool has_parameters = call.contains("parameters");
  if (has_arguments && has_parameters) return std::nullopt;
  if (!has_arguments && !has_parameters) return call.size() == 1 ? std::optional<std::string>("{}") : std::nullopt;
  const std::string_view key = has_arguments ? "arguments" : "parameters";
  std::string_view written;
  for (const JsonMember& member : members_of(text)) {
    if (member.key == key) written = member.value;  // of two, the last, as parse_json takes it
  }
  return object_text(call.at(key), written);
}

class JsonCallReader final : public CallReader {
 public:
  explicit JsonCallReader(std::shared_ptr<const ToolSchemas> tools) : tools_(std::move(tools)) {}

  void start() override {
    state_ = State::kBegin;
    begin_ = Pattern("<tool_call> {");
    object_end_ = ObjectEnd();
    end_ = Pattern(" </tool_call>");
    object_.clear();
  }

  Step push(char byte) override {
    switch (state_) {
      case State::kBegin: return push_begin(byte);
      case State::kObject: return push_object(byte);
      case State::kEnd: break;
    }
    return end_.push(byte);
  }

  ToolCall take() override { return std::move(call_); }

 private:
  enum class State { kBegin, kObject, kEnd };

  Step push_begin(char byte) {
    const Step step = begin_.push(byte);
    if (step != Step::kComplete) return step;
    state_ = State::kObject;
    return push_object(byte);
  }

  Step push_object(char byte) {
    object_ += byte;
    const Step step = object_end_.push(byte);
    if (step != Step::kComplete) return step;
    if (!read_call()) return Step::kFailed;
    state_ = State::kEnd;
    return Step::kMore;
  }

  bool read_call() {
    const Result<json::value> value = parse_json(object_);
    if (!value || !value->is_object()) return false;
    const json::object& object = value->get_object();
    const json::value* name = object.if_contains("name");
    if (name == nullptr || !name->is_string() || !tools_->contains(name->get_string())) return false;
    std::optional<std::string> arguments = read_arguments(object, compact_json(object_));
    if (!arguments) return false;
    call_ = {.name = std::string(name->get_string()), .arguments = *std::move(arguments)};
    return true;
  }

  std::shared_ptr<const ToolSchemas> tools_;
  State state_ = State::kBegin;
  Pattern begin_;
  ObjectEnd object_end_;
  Pattern end_;
  std::string object_;
  ToolCall call_;
};

}  // namespace

std::unique_ptr<CallReader> make_json_call_reader(std::shared_ptr<const ToolSchemas> tools) {
  return std::make_unique<JsonCallReader>(std::move(tools));
}

}  // namespace redpoll::text
