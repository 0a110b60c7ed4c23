#include "http/connection_exchange.h"

#include <utility>

#include "base/error.h"

namespace redpoll::http {

ConnectionExchange::ConnectionExchange(ClientLink& link, ResponseHead head, bool head_only)
    : link_(link), head_(std::move(head)), head_only_(head_only) {
  // An interim response is something that every HTTP/1.1 client skips and HTTP/1.0 does not have.
  link_.watch(head_.http_1_0 ? std::string() : std::string(kContinue));
}

ConnectionExchange::~ConnectionExchange() { end_watch(); }

void ConnectionExchange::end_watch() {
  link_.stop_watching();
  link_.clear_callbacks();
}

Task<EventStream*> ConnectionExchange::open_event_stream(std::vector<Header> headers) {
  CHECK(!stream_opened_, "an exchange has one event stream");
  stream_opened_ = true;
  head_.content_type = "text/event-stream";
  head_.chunked = !head_.http_1_0;
  if (head_.http_1_0) head_.keep_alive = false;  // only the connection's end can end its body
  head_.headers.emplace_back("cache-control", "no-cache");
  head_.headers.emplace_back("x-accel-buffering", "no");  // nginx would collect events otherwise
  for (Header& header : headers) head_.headers.push_back(std::move(header));
  // From here on an interim response would be out of place; an empty comment is not.
  link_.set_probe(head_only_ ? std::string() : frame(format_comment("")));
  (void)co_await link_.write(format_head(head_));  // a failed write is remembered by the link
  co_return this;
}

Task<bool> ConnectionExchange::send(std::string_view data, std::string_view event) {
  return write_part(frame(format_event(data, event)));
}

Task<bool> ConnectionExchange::comment(std::string_view text) { return write_part(frame(format_comment(text))); }

Task<bool> ConnectionExchange::finish_stream() { return write_part(head_.chunked ? std::string(kLastChunk) : ""); }

std::string ConnectionExchange::frame(std::string payload) const {
  return head_.chunked ? format_chunk(payload) : std::move(payload);
}

Task<bool> ConnectionExchange::write_part(std::string bytes) {
  // The answer to HEAD is a head; to the handler it looks like a client that read no further.
  if (head_only_) co_return false;
  co_return co_await link_.write(std::move(bytes));
}

}  // namespace redpoll::http
