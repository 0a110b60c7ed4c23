#include "cli/line_editor.h"

#include <histedit.h>
#include <unistd.h>

#include <clocale>
#include <cstdio>
#include <iostream>

namespace redpoll::cli {
namespace {

constexpr int kHistoryLines = 1000;

}  // namespace

class LineEditor::Impl {
 public:
  explicit Impl(std::filesystem::path history_file) : history_file_(std::move(history_file)) {
    std::setlocale(LC_CTYPE, "");  // libedit reads multi-byte characters by the locale
    editor_ = el_init("redpoll", stdin, stdout, stderr);
    history_ = history_init();
    HistEvent event;
    history(history_, &event, H_SETSIZE, kHistoryLines);
    history(history_, &event, H_SETUNIQUE, 1);
    history(history_, &event, H_LOAD, history_file_.c_str());
    el_set(editor_, EL_CLIENTDATA, this);
    el_set(
        editor_, EL_PROMPT, +[](EditLine* editor) {
          Impl* self = nullptr;
          el_get(editor, EL_CLIENTDATA, &self);
          return self->prompt_.data();
        });
    el_set(editor_, EL_EDITOR, "emacs");
    el_set(editor_, EL_SIGNAL, 1);
    el_set(editor_, EL_HIST, history, history_);
    el_source(editor_, nullptr);  // the user's ~/.editrc
  }
  ~Impl() {
    HistEvent event;
    std::error_code ignored;
    std::filesystem::create_directories(history_file_.parent_path(), ignored);
    history(history_, &event, H_SAVE, history_file_.c_str());
    history_end(history_);
    el_end(editor_);
  }
  Impl(const Impl&) = delete;
  Impl& operator=(const Impl&) = delete;

  std::optional<std::string> read_line(const std::string& prompt) {
    prompt_ = prompt;
    int length = 0;
    const char* line = el_gets(editor_, &length);
    if (line == nullptr || length <= 0) return std::nullopt;
    std::string text(line, static_cast<std::size_t>(length));
    if (text.ends_with('\n')) text.pop_back();
    return text;
  }
  void remember(const std::string& line) {
    HistEvent event;
    history(history_, &event, H_ENTER, line.c_str());
  }

 private:
  std::filesystem::path history_file_;
  std::string prompt_;
  EditLine* editor_ = nullptr;
  History* history_ = nullptr;
};

LineEditor::LineEditor(std::filesystem::path history_file) {
  if (::isatty(STDIN_FILENO) != 0 && ::isatty(STDOUT_FILENO) != 0) {
    impl_ = std::make_unique<Impl>(std::move(history_file));
  }
}

LineEditor::~LineEditor() = default;

std::optional<std::string> LineEditor::read_line(const std::string& prompt) {
  if (impl_) return impl_->read_line(prompt);
  std::string line;
  if (!std::getline(std::cin, line)) return std::nullopt;
  return line;
}

void LineEditor::remember(const std::string& line) {
  if (impl_) impl_->remember(line);
}

}  // namespace redpoll::cli
