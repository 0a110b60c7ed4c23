// LineEditor: one line of input with editing keys and history where standard input is a terminal, plain lines
// elsewhere. libedit stays in the .cpp.
#pragma once

#include <filesystem>
#include <memory>
#include <optional>
#include <string>

namespace redpoll::cli {

class LineEditor {
 public:
  /// History is read from and written to `history_file`; failures to do so are silent, since nothing is lost.
  explicit LineEditor(std::filesystem::path history_file);
  ~LineEditor();
  LineEditor(const LineEditor&) = delete;
  LineEditor& operator=(const LineEditor&) = delete;

  /// Without its line break; nullopt at the end of input or when the line was interrupted by Ctrl-C.
  [[nodiscard]] std::optional<std::string> read_line(const std::string& prompt);
  void remember(const std::string& line);

 private:
  class Impl;
  std::unique_ptr<Impl> impl_;  // null where standard input is no terminal
};

}  // namespace redpoll::cli
