#include "text/tool_calls/parser.h"

#include <algorithm>
#include <utility>

namespace redpoll::text {
namespace {

std::unique_ptr<CallReader> make_reader(const ToolCallOptions& options) {
  if (options.format == ToolCallFormat::kJson) return make_json_call_reader(options.tools);
  return make_tag_call_reader(options.format, options.tools);
}

}  // namespace

ToolCallParser::ToolCallParser(const ToolCallOptions& options)
    : reader_(make_reader(options)), max_calls_(options.max_calls) {}

ToolCallParser::Output ToolCallParser::push(std::string_view text) {
  Output output;
  read(text, output);
  return output;
}

void ToolCallParser::read(std::string_view text, Output& output) {
  while (!text.empty() && !finished()) {
    if (!in_call_) {
      const std::size_t before = std::min(text.find('<'), text.size());
      show(text.substr(0, before), output.text);
      text.remove_prefix(before);
      if (text.empty()) break;
      reader_->start();
      in_call_ = true;
    }
    const CallReader::Step step = reader_->push(text.front());
    if (step == CallReader::Step::kFailed) {
      give_up_call(output);
      continue;  // the byte may begin another call
    }
    held_ += text.front();
    text.remove_prefix(1);
    if (step == CallReader::Step::kMore) continue;
    output.calls.push_back(reader_->take());
    ++num_calls_;
    in_call_ = shows_text_ = false;
    held_.clear();
    spaces_.clear();
  }
}

// Reads what was held from its last '<' on once more. In that there is no other, so it is not read a third time.
void ToolCallParser::give_up_call(Output& output) {
  const std::string held = std::exchange(held_, {});
  in_call_ = false;
  const std::size_t last = held.rfind('<');
  if (last == 0) {
    show(held, output.text);
  } else {
    show(std::string_view(held).substr(0, last), output.text);
    read(std::string_view(held).substr(last), output);
  }
}

std::string ToolCallParser::flush() {
  std::string out;
  show(std::exchange(held_, {}), out);
  if (num_calls_ == 0) out += spaces_;
  spaces_.clear();
  in_call_ = false;
  return out;
}

void ToolCallParser::show(std::string_view text, std::string& out) {
  if (!shows_text_) {
    shows_text_ = !std::ranges::all_of(text, is_space);
    spaces_ += text;
    if (shows_text_) out += std::exchange(spaces_, {});
    return;
  }
  out += text;
}

}  // namespace redpoll::text
