// EventReader: server-sent events out of the bytes of a body, in whatever pieces they come. The reading side of
// format_event.
#pragma once

#include <string>
#include <string_view>
#include <vector>

namespace redpoll::http {

class EventReader {
 public:
  /// The data of every event that these bytes complete, several data fields joined by line breaks. Comments, other
  /// fields and events without data are dropped.
  [[nodiscard]] std::vector<std::string> feed(std::string_view bytes);

 private:
  void take_line(std::string_view line, std::vector<std::string>& events);

  std::string rest_;  // the beginning of a line
  std::string data_;
  bool has_data_ = false;
};

}  // namespace redpoll::http
