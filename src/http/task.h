// Task: the coroutine type of everything that runs on an I/O thread. A Task starts when it is awaited, resumes on the
// I/O thread of its connection and must never block: blocking or long work goes through run_on (http/async.h), waiting
// for another thread goes through Signal (http/signal.h). This is all of Asio that leaves this folder.
#pragma once

#include <boost/asio/awaitable.hpp>

namespace redpoll::http {

template <typename T>
using Task = boost::asio::awaitable<T>;

}  // namespace redpoll::http
