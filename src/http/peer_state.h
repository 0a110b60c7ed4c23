// What the other end of a TCP socket is doing, found without reading or waiting. The one place here that asks the
// operating system itself; Linux tells more (see peer_state.cpp), other systems have a portable fallback.
#pragma once

#include <chrono>

namespace redpoll::http {

enum class PeerState {
  kQuiet,       // open, nothing to read
  kHasData,     // bytes are waiting, such as a pipelined request
  kEndOfInput,  // the client has closed its sending side: it may have gone, or may still be reading
  kGone,        // reset or broken
};

[[nodiscard]] PeerState peer_state(int socket);

/// Has the operating system give a TCP connection up when its other end, asked while nothing is said, has not answered
/// for `limit`: a machine that lost its power or its network says no goodbye, and by default takes many minutes to be
/// missed. As far as the system can be told; for other sockets it does nothing.
void limit_silence(int socket, std::chrono::milliseconds limit);

}  // namespace redpoll::http
