// The page at "/": what is served and how to call it. One self-contained HTML document: no script, nothing loaded.
#pragma once

#include <string>
#include <string_view>

namespace redpoll::server {

struct WebPageInfo {
  std::string version;
  std::string model;     // the served id
  int max_context = 0;   // tokens
  std::string base_url;  // as this client reaches the server: "http://127.0.0.1:8080"
  bool key_required = false;
};

/// `nonce` must be in the page's Content-Security-Policy: see web_page_policy.
[[nodiscard]] std::string web_page(const WebPageInfo& info, std::string_view nonce);

/// The Content-Security-Policy under which the page shows: its one style sheet and nothing else.
[[nodiscard]] std::string web_page_policy(std::string_view nonce);

}  // namespace redpoll::server
