#include "server/web_page.h"

#include "base/json.h"

namespace redpoll::server {
namespace {

constexpr std::string_view kStyle = R"(
:root { color-scheme: light dark; }
body { font: 16px/1.5 system-ui, sans-serif; max-width: 46rem; margin: 3rem auto; padding: 0 1rem; }
h1 { font-size: 1.6rem; margin-bottom: 0; }
h2 { font-size: 1.1rem; margin-top: 2rem; }
pre { padding: .8rem 1rem; overflow-x: auto; border-radius: .4rem; background: color-mix(in srgb, currentColor 8%, transparent); }
code { font: 14px/1.5 ui-monospace, monospace; }
td { padding: .1rem 1rem .1rem 0; vertical-align: top; }
)";

struct Route {
  std::string_view method;
  std::string_view path;
  std::string_view what;
};
constexpr Route kRoutes[] = {
    {"POST", "/v1/chat/completions", "chat, streamed or not"},
    {"POST", "/v1/completions", "text or token ids continued; echo and logprobs"},
    {"GET", "/v1/models", "what is served"},
    {"POST", "/tokenize", "text to token ids"},
    {"POST", "/detokenize", "token ids to text"},
    {"POST", "/apply-template", "the prompt that messages become"},
    {"GET", "/health", "can the engine answer"},
    {"GET", "/stats", "requests, cache and memory as JSON"},
    {"GET", "/metrics", "the same for Prometheus"},
};

std::string escape_html(std::string_view text) {
  std::string out;
  for (const char c : text) {
    switch (c) {
      case '&': out += "&amp;"; break;
      case '<': out += "&lt;"; break;
      case '>': out += "&gt;"; break;
      case '"': out += "&quot;"; break;
      case '\'': out += "&#39;"; break;
      default: out += c;
    }
  }
  return out;
}

std::string code_block(std::string_view code) { return "<pre><code>" + escape_html(code) + "</code></pre>\n"; }

std::string curl_example(const WebPageInfo& info) {
  const std::string key = info.key_required ? " \\\n  -H 'Authorization: Bearer <key>'" : "";
  return "curl " + info.base_url + "/v1/chat/completions -H 'Content-Type: application/json'" + key + R"( \
  -d '{"messages": [{"role": "user", "content": "What is the capital of France?"}]}')";
}

std::string python_example(const WebPageInfo& info) {
  return "from openai import OpenAI\n\n"
         "client = OpenAI(base_url=\"" +
         info.base_url + "/v1\", api_key=\"" + (info.key_required ? "<key>" : "unused") +
         "\")\n"
         "stream = client.chat.completions.create(\n"
         "    model=" +
         dump_json(json::value(json::string(info.model))) +
         ",\n"
         "    messages=[{\"role\": \"user\", \"content\": \"What is the capital of France?\"}],\n"
         "    stream=True,\n)\n"
         "for chunk in stream:\n"
         "    print(chunk.choices[0].delta.content or \"\", end=\"\", flush=True)";
}

std::string route_table() {
  std::string out = "<table>\n";
  for (const auto& [method, path, what] : kRoutes) {
    const bool is_link = method == "GET";
    out.append("<tr><td>").append(method).append("</td><td><code>");
    if (is_link) out.append(R"(<a href=")").append(path).append(R"(">)");
    out.append(path).append(is_link ? "</a>" : "");
    out.append("</code></td><td>").append(what).append("</td></tr>\n");
  }
  return out + "</table>\n";
}

}  // namespace

std::string web_page(const WebPageInfo& info, std::string_view nonce) {
  std::string page =
      "<!doctype html>\n<html lang=\"en\">\n<head>\n<meta charset=\"utf-8\">\n"
      "<meta name=\"viewport\" content=\"width=device-width, initial-scale=1\">\n"
      "<title>Redpoll</title>\n";
  page += "<style nonce=\"" + std::string(nonce) + "\">" + std::string(kStyle) + "</style>\n</head>\n<body>\n";
  page += "<h1>Redpoll</h1>\n<p>Version " + escape_html(info.version) + " serves <strong>" + escape_html(info.model) +
          "</strong> with a context of " + std::to_string(info.max_context) + " tokens.</p>\n";
  if (info.key_required) page += "<p>Requests need a key: <code>Authorization: Bearer &lt;key&gt;</code>.</p>\n";
  page += "<h2>Ask it from a shell</h2>\n" + code_block(curl_example(info));
  page += "<h2>Ask it from Python</h2>\n" + code_block(python_example(info));
  page += "<h2>Routes</h2>\n" + route_table();
  return page + "</body>\n</html>\n";
}

std::string web_page_policy(std::string_view nonce) {
  return "default-src 'none'; style-src 'nonce-" + std::string(nonce) +
         "'; base-uri 'none'; form-action 'none'; frame-ancestors 'none'";
}

}  // namespace redpoll::server
