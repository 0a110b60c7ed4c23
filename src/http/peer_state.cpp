#include "http/peer_state.h"

#include <poll.h>
#include <sys/socket.h>

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

}  // namespace redpoll::http
