// What a link does about clients that are slow or have vanished.
#include "http/client_link.h"

#include <gtest/gtest.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <sys/socket.h>

#include <array>
#include <boost/asio/buffer.hpp>
#include <boost/asio/io_context.hpp>
#include <thread>

namespace redpoll::http {
namespace {

namespace asio = boost::asio;
using boost::system::error_code;
using std::chrono::milliseconds;
using tcp = asio::ip::tcp;

class ClientLinkTest : public testing::Test {
 protected:
  ClientLinkTest() {
    tcp::acceptor acceptor(io_, tcp::endpoint(asio::ip::address_v4::loopback(), 0));
    client_.connect(acceptor.local_endpoint());
    link_ = std::make_shared<ClientLink>(acceptor.accept(), milliseconds(100));
  }

  // Until not one byte more fits between the two ends, not even after the system has moved what there is.
  void fill() const {
    const std::string bytes(1 << 16, 'x');
    const auto fits = [&] {
      return ::send(link_->socket().native_handle(), bytes.data(), bytes.size(), MSG_DONTWAIT | MSG_NOSIGNAL) > 0;
    };
    for (int num_refused = 0; num_refused < 20; ++num_refused) {
      while (fits()) num_refused = 0;
      std::this_thread::sleep_for(milliseconds(5));
    }
  }

  [[nodiscard]] int option(int level, int name) const {
    int value = 0;
    socklen_t size = sizeof value;
    EXPECT_EQ(::getsockopt(link_->socket().native_handle(), level, name, &value, &size), 0);
    return value;
  }

  asio::io_context io_;
  tcp::socket client_{io_};
  std::shared_ptr<ClientLink> link_;
};

// A client that closed its sending side and reads nothing: the probe that asks whether it is there cannot be sent.
TEST_F(ClientLinkTest, AProbeThatNobodyTakesGivesTheClientUp) {
  fill();
  bool gone = false;
  link_->on_gone([&] { gone = true; });
  link_->watch("probe");
  client_.shutdown(tcp::socket::shutdown_send);
  io_.run_for(milliseconds(2000));
  EXPECT_TRUE(gone);
}

// An operation of several steps may be between two of them when its time is over.
TEST_F(ClientLinkTest, WhatBeginsAfterTheDeadlineIsCancelledToo) {
  link_->start_deadline(milliseconds(10));
  io_.run_for(milliseconds(50));
  std::array<char, 1> byte;
  error_code result;
  link_->socket().async_read_some(asio::buffer(byte), [&](const error_code& error, std::size_t) {
    result = error;
    EXPECT_TRUE(link_->stop_deadline());
  });
  io_.run_for(milliseconds(2000));
  EXPECT_EQ(result, asio::error::operation_aborted);
}

TEST_F(ClientLinkTest, TheSystemIsToldHowLongAClientMayBeSilent) {
  EXPECT_EQ(option(SOL_SOCKET, SO_KEEPALIVE), 1);
#ifdef TCP_KEEPIDLE
  EXPECT_EQ(option(IPPROTO_TCP, TCP_KEEPIDLE), 1);
#endif
}

}  // namespace
}  // namespace redpoll::http
