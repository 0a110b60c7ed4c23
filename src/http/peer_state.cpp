#include "http/peer_state.h"

#include <netinet/in.h>
#include <netinet/tcp.h>
#include <poll.h>
#include <sys/socket.h>

#include <algorithm>
#include <cerrno>

namespace redpoll::http {

PeerState peer_state(int socket) {
  char byte = 0;
#ifdef POLLRDHUP
  // Unlike a peek, this sees an end or a reset behind bytes that nobody has read yet.
  pollfd entry{socket, POLLIN | POLLRDHUP, 0};
  if (::poll(&entry, 1, 0) < 0) return errno == EINTR ? PeerState::kQuiet : PeerState::kGone;
  if ((entry.revents & (POLLERR | POLLHUP | POLLNVAL)) != 0) return PeerState::kGone;
  if ((entry.revents & POLLRDHUP) != 0) return PeerState::kEndOfInput;
#endif
  const auto received = ::recv(socket, &byte, 1, MSG_PEEK | MSG_DONTWAIT);
  if (received > 0) return PeerState::kHasData;
  if (received == 0) return PeerState::kEndOfInput;
  return errno == EAGAIN || errno == EWOULDBLOCK || errno == EINTR ? PeerState::kQuiet : PeerState::kGone;
}

void limit_silence(int socket, [[maybe_unused]] std::chrono::milliseconds limit) {
  const auto set = [socket](int level, int name, int value) {
    (void)::setsockopt(socket, level, name, &value, sizeof value);
  };
  set(SOL_SOCKET, SO_KEEPALIVE, 1);
#if defined(TCP_KEEPIDLE)
  // The first question after half the time, the rest spread over the other half.
  constexpr int kQuestions = 4;
  const int seconds = std::max(1, static_cast<int>(std::chrono::ceil<std::chrono::seconds>(limit).count()));
  set(IPPROTO_TCP, TCP_KEEPIDLE, std::max(1, seconds / 2));
  set(IPPROTO_TCP, TCP_KEEPINTVL, std::max(1, seconds / (2 * kQuestions)));
  set(IPPROTO_TCP, TCP_KEEPCNT, kQuestions);
#endif
}

}  // namespace redpoll::http
