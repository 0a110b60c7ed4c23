#include "cli/line_editor.h"

#include <histedit.h>
#include <unistd.h>

#include <cerrno>
#include <clocale>
#include <cstdio>
#include <iostream>
#include <utility>

namespace redpoll::cli {
namespace {

constexpr int kHistoryLines = 1000;

}  // namespace

class LineEditor::Impl {
 public:
  explicit Impl(std::filesystem::path history_file) : history_file_(std::move(history_file)) {
    use_utf8();
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
    bind_ctrl_c();
    el_set(editor_, EL_SIGNAL, 1);  // the terminal is put right before any signal is acted on
    el_set(editor_, EL_HIST, history, history_);
    el_source(editor_, nullptr);  // the user's ~/.editrc
  }
  ~Impl() {
    history_end(history_);
    el_end(editor_);
  }
  Impl(const Impl&) = delete;
  Impl& operator=(const Impl&) = delete;

  Line read_line(const std::string& prompt) {
    prompt_ = prompt;
    forgotten_ = false;
    // Before the prompt shows, or keys pressed right after it would still be the terminal's.
    el_set(editor_, EL_PREP_TERM, 1);
    el_set(editor_, EL_SETTY, "-d", "intr=", nullptr);  // each time: entering this mode may put it back
    int length = 0;
    const char* line = el_gets(editor_, &length);
    if (forgotten_ || (line == nullptr && length < 0 && errno == EINTR)) {
      std::cout << "^C" << std::endl;
      return {Line::Kind::kInterrupted, {}};
    }
    if (line == nullptr || length <= 0) {
      std::cout << std::endl;  // Ctrl-D leaves the cursor behind the prompt
      return {Line::Kind::kEnd, {}};
    }
    std::string text(line, static_cast<std::size_t>(length));
    if (text.ends_with('\n')) text.pop_back();
    return {Line::Kind::kText, std::move(text)};
  }

  void remember(const std::string& text) {
    HistEvent event;
    history(history_, &event, H_ENTER, text.c_str());
    std::error_code ignored;
    std::filesystem::create_directories(history_file_.parent_path(), ignored);
    history(history_, &event, H_SAVE, history_file_.c_str());
  }

 private:
  // Ctrl-C is a key here and no signal, which could come to any thread and not wake the one that reads.
  void bind_ctrl_c() {
    el_set(
        editor_, EL_ADDFN, "redpoll-forget-line", "Forget what was typed",
        +[](EditLine* editor, int /*key*/) -> unsigned char {
          Impl* self = nullptr;
          el_get(editor, EL_CLIENTDATA, &self);
          self->forgotten_ = true;
          return CC_EOF;
        });
    el_set(editor_, EL_BIND, "^C", "redpoll-forget-line", nullptr);
  }

  // libedit reads characters of several bytes by the locale, which in containers is often "C".
  static void use_utf8() {
    if (std::setlocale(LC_CTYPE, "") == nullptr || MB_CUR_MAX == 1) std::setlocale(LC_CTYPE, "C.UTF-8");
  }

  std::filesystem::path history_file_;
  std::string prompt_;
  bool forgotten_ = false;  // by Ctrl-C
  EditLine* editor_ = nullptr;
  History* history_ = nullptr;
};

LineEditor::LineEditor(std::filesystem::path history_file) {
  if (::isatty(STDIN_FILENO) != 0 && ::isatty(STDOUT_FILENO) != 0) {
    impl_ = std::make_unique<Impl>(std::move(history_file));
  }
}

LineEditor::~LineEditor() = default;

Line LineEditor::read_line(const std::string& prompt) {
  if (impl_) return impl_->read_line(prompt);
  Line line;
  if (!std::getline(std::cin, line.text)) line.kind = Line::Kind::kEnd;
  return line;
}

void LineEditor::remember(const std::string& text) {
  if (impl_) impl_->remember(text);
}

}  // namespace redpoll::cli
