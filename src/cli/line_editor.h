// LineEditor: one line of input with editing keys and history where standard input is a terminal, plain lines
// elsewhere. libedit stays in the .cpp.
#pragma once

#include <filesystem>
#include <memory>
#include <string>

namespace redpoll::cli {

struct Line {
  enum class Kind {
    kText,
    kInterrupted,  // Ctrl-C: what was typed is to be forgotten
    kEnd,          // Ctrl-D, or the end of the input
  };
  Kind kind = Kind::kText;
  std::string text;  // without its line break
};

class LineEditor {
 public:
  /// History is kept in `history_file`; failures to do so are silent, since nothing else depends on it.
  explicit LineEditor(std::filesystem::path history_file);
  ~LineEditor();
  LineEditor(const LineEditor&) = delete;
  LineEditor& operator=(const LineEditor&) = delete;

  /// Shows `prompt` only where somebody types.
  [[nodiscard]] Line read_line(const std::string& prompt);
  /// Adds a text to the history and saves it.
  void remember(const std::string& text);
  [[nodiscard]] bool interactive() const { return impl_ != nullptr; }

 private:
  class Impl;
  std::unique_ptr<Impl> impl_;  // null where standard input or output is no terminal
};

}  // namespace redpoll::cli
