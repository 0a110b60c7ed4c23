// ConnectionExchange: the Exchange and EventStream of one request on a ClientLink.
#pragma once

#include <functional>
#include <string>
#include <string_view>
#include <vector>

#include "http/client_link.h"
#include "http/exchange.h"
#include "http/wire_format.h"

namespace redpoll::http {

/// Watches the client from construction until `finish` or the first byte of the ordinary response. `head` is what a
/// stream's head starts from: request id, keep-alive, CORS headers.
class ConnectionExchange final : public Exchange, public EventStream {
 public:
  ConnectionExchange(ClientLink& link, ResponseHead head, bool head_only);
  ~ConnectionExchange() override;
  ConnectionExchange(const ConnectionExchange&) = delete;
  ConnectionExchange& operator=(const ConnectionExchange&) = delete;

  [[nodiscard]] Task<EventStream*> open_event_stream(std::vector<Header> headers) override;
  [[nodiscard]] bool client_gone() const override { return link_.gone(); }
  void on_disconnect(std::function<void()> callback) override { link_.on_gone(std::move(callback)); }

  [[nodiscard]] Task<bool> send(std::string_view data, std::string_view event) override;
  [[nodiscard]] Task<bool> comment(std::string_view text) override;

  [[nodiscard]] bool stream_opened() const { return stream_opened_; }
  /// The handler has returned: no callbacks from here on.
  void end_watch();
  /// Ends the stream's body.
  [[nodiscard]] Task<bool> finish_stream();

 private:
  [[nodiscard]] std::string frame(std::string payload) const;
  [[nodiscard]] Task<bool> write_part(std::string bytes);

  ClientLink& link_;
  ResponseHead head_;
  bool head_only_;
  bool stream_opened_ = false;
};

}  // namespace redpoll::http
