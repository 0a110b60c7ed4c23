// Exchange and EventStream: what a handler can do besides returning a Response: stream server-sent events, and learn
// that the client has gone. Both live on the connection's I/O thread and end when the handler returns.
#pragma once

#include <functional>
#include <string>
#include <string_view>
#include <vector>

#include "http/request.h"
#include "http/task.h"

namespace redpoll::http {

/// Server-sent events. Every send is on its way to the client when it returns: nothing is collected. A send waits while
/// the client reads slower than we write, so memory stays bounded; one that waits longer than write_timeout means the
/// client has gone. One send at a time.
class EventStream {
 public:
  virtual ~EventStream() = default;

  /// One event. Each line of `data` becomes a data field; `event` is the event's name, "" for none. False: the client
  /// has gone, and nothing that follows will reach it.
  [[nodiscard]] virtual Task<bool> send(std::string_view data, std::string_view event = {}) = 0;
  /// A comment line, which clients ignore: keeps proxies from closing a silent stream.
  [[nodiscard]] virtual Task<bool> comment(std::string_view text) = 0;
  [[nodiscard]] virtual bool client_gone() const = 0;
};

class Exchange {
 public:
  virtual ~Exchange() = default;

  /// Answers 200 with content type text/event-stream and sends the head at once. The Response that the handler then
  /// returns is ignored; the stream is closed properly after it. At most once per exchange. The stream lives as long
  /// as the exchange; if the client has gone already, its sends return false.
  [[nodiscard]] virtual Task<EventStream*> open_event_stream(std::vector<Header> headers = {}) = 0;

  /// True once the client has gone, or the server's grace at shutdown is over: the answer will reach nobody.
  [[nodiscard]] virtual bool client_gone() const = 0;

  /// `callback` runs on the I/O thread, at most once, as soon as the client goes, even if no byte was written yet, and
  /// never after the handler has returned. Runs at once if the client has gone already. It must not throw.
  virtual void on_disconnect(std::function<void()> callback) = 0;
};

}  // namespace redpoll::http
