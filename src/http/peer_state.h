// What the other end of a TCP socket is doing, found without reading or waiting. The one place here that asks the
// operating system itself; Linux tells more (see peer_state.cpp), other systems have a portable fallback.
#pragma once

namespace redpoll::http {

enum class PeerState {
  kQuiet,       // open, nothing to read
  kHasData,     // bytes are waiting, such as a pipelined request
  kEndOfInput,  // the client has closed its sending side: it may have gone, or may still be reading
  kGone,        // reset or broken
};

[[nodiscard]] PeerState peer_state(int socket);

}  // namespace redpoll::http
