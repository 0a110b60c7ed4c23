// TestClient: a blocking HTTP client on a bare socket, so that tests decide every byte and every close themselves.
#pragma once

#include <arpa/inet.h>
#include <gtest/gtest.h>
#include <netinet/in.h>
#include <poll.h>
#include <sys/socket.h>
#include <unistd.h>

#include <algorithm>
#include <chrono>
#include <cstdint>
#include <map>
#include <string>
#include <string_view>

namespace redpoll::http {

struct Reply {
  int status = 0;                              // 0: the connection ended before a head
  std::map<std::string, std::string> headers;  // names in lower case
  std::string body;
  std::string head;
};

class TestClient {
 public:
  explicit TestClient(std::uint16_t port, int receive_buffer = 0) : socket_(::socket(AF_INET, SOCK_STREAM, 0)) {
    if (receive_buffer > 0) ::setsockopt(socket_, SOL_SOCKET, SO_RCVBUF, &receive_buffer, sizeof receive_buffer);
    sockaddr_in address{};
    address.sin_family = AF_INET;
    address.sin_port = htons(port);
    address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
    connected_ = ::connect(socket_, reinterpret_cast<sockaddr*>(&address), sizeof address) == 0;
  }
  ~TestClient() { close(); }
  TestClient(const TestClient&) = delete;
  TestClient& operator=(const TestClient&) = delete;

  [[nodiscard]] bool connected() const { return connected_; }

  // False once the server has closed.
  bool send(std::string_view bytes) const {
    while (!bytes.empty()) {
      const auto sent = ::send(socket_, bytes.data(), bytes.size(), MSG_NOSIGNAL);
      if (sent <= 0) return false;
      bytes.remove_prefix(static_cast<std::size_t>(sent));
    }
    return true;
  }

  // Sends a GET and reads its reply.
  Reply get(std::string_view path, std::string_view extra_headers = "") {
    send("GET " + std::string(path) + " HTTP/1.1\r\nHost: localhost\r\n" + std::string(extra_headers) + "\r\n");
    return read_reply();
  }
  Reply post(std::string_view path, std::string_view body, std::string_view extra_headers = "") {
    send("POST " + std::string(path) + " HTTP/1.1\r\nHost: localhost\r\nContent-Length: " +
         std::to_string(body.size()) + "\r\n" + std::string(extra_headers) + "\r\n" + std::string(body));
    return read_reply();
  }

  // The next head with its body; of a chunked reply, all chunks joined.
  Reply read_reply(bool head_only = false) {
    Reply reply = read_head();
    if (head_only || reply.status / 100 == 1 || reply.status == 204) return reply;
    if (const auto length = reply.headers.find("content-length"); length != reply.headers.end()) {
      reply.body = read_exactly(std::stoul(length->second));
    } else if (reply.headers.contains("transfer-encoding")) {
      for (std::string chunk = read_chunk(); !chunk.empty(); chunk = read_chunk()) reply.body += chunk;
    }
    return reply;
  }

  Reply read_head() {
    Reply reply;
    reply.head = read_through("\r\n\r\n");
    if (reply.head.size() < 12) return reply;
    reply.status = std::stoi(reply.head.substr(9, 3));
    std::string_view rest = reply.head;
    rest.remove_prefix(rest.find("\r\n") + 2);
    while (rest.size() > 2) {
      const std::string_view line = rest.substr(0, rest.find("\r\n"));
      rest.remove_prefix(line.size() + 2);
      std::string name(line.substr(0, line.find(": ")));
      std::ranges::transform(name, name.begin(), [](unsigned char c) { return std::tolower(c); });
      reply.headers[name] = line.substr(name.size() + 2);
    }
    return reply;
  }

  // The payload of the next chunk; "" for the last one or the end of the connection.
  std::string read_chunk() {
    const std::string line = read_through("\r\n");
    if (line.empty()) return {};
    const std::size_t size = std::stoul(line, nullptr, 16);
    const std::string payload = read_exactly(size + 2);
    saw_last_chunk_ = size == 0;
    return payload.size() == size + 2 ? payload.substr(0, size) : std::string();
  }
  [[nodiscard]] bool saw_last_chunk() const { return saw_last_chunk_; }

  // True if the server ends the connection within `limit`; what it sends before is dropped.
  bool is_closed_within(std::chrono::milliseconds limit) {
    const auto end = std::chrono::steady_clock::now() + limit;
    while (std::chrono::steady_clock::now() < end) {
      if (!fill(end)) return closed_;
    }
    return false;
  }

  std::string read_to_end() {
    const auto end = std::chrono::steady_clock::now() + kPatience;
    while (fill(end)) {
    }
    return std::exchange(buffer_, {});
  }

  void close_sending() const { ::shutdown(socket_, SHUT_WR); }
  void close() {
    if (socket_ >= 0) ::close(socket_);
    socket_ = -1;
  }
  // Makes the kernel send RST instead of FIN.
  void reset() {
    const linger hard{1, 0};
    ::setsockopt(socket_, SOL_SOCKET, SO_LINGER, &hard, sizeof hard);
    close();
  }

 private:
  static constexpr std::chrono::seconds kPatience{10};

  // Reads once; false at the end of the connection or of the time.
  bool fill(std::chrono::steady_clock::time_point end) {
    const auto left = std::chrono::duration_cast<std::chrono::milliseconds>(end - std::chrono::steady_clock::now());
    pollfd entry{socket_, POLLIN, 0};
    if (left.count() < 0 || ::poll(&entry, 1, static_cast<int>(left.count())) <= 0) return false;
    char bytes[65536];
    const auto received = ::recv(socket_, bytes, sizeof bytes, 0);
    closed_ = received <= 0;
    if (!closed_) buffer_.append(bytes, static_cast<std::size_t>(received));
    return !closed_;
  }

  std::string take(std::size_t size) {
    std::string taken = buffer_.substr(0, size);
    buffer_.erase(0, size);
    return taken;
  }

  std::string read_through(std::string_view marker) {
    const auto end = std::chrono::steady_clock::now() + kPatience;
    for (;;) {
      if (const auto found = buffer_.find(marker); found != std::string::npos) return take(found + marker.size());
      if (!fill(end)) return take(buffer_.size());
    }
  }

  std::string read_exactly(std::size_t size) {
    const auto end = std::chrono::steady_clock::now() + kPatience;
    while (buffer_.size() < size && fill(end)) {
    }
    return take(std::min(size, buffer_.size()));
  }

  int socket_;
  bool connected_ = false;
  bool closed_ = false;
  bool saw_last_chunk_ = false;
  std::string buffer_;
};

}  // namespace redpoll::http
