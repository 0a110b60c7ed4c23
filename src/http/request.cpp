#include "http/request.h"

#include <openssl/rand.h>

#include <algorithm>
#include <array>

#include "base/text.h"
#include "base/utf8.h"

namespace redpoll::http {
namespace {

char lower(char c) { return c >= 'A' && c <= 'Z' ? static_cast<char>(c - 'A' + 'a') : c; }

int hex_digit(char c) {
  if (c >= '0' && c <= '9') return c - '0';
  const char l = lower(c);
  return l >= 'a' && l <= 'f' ? l - 'a' + 10 : -1;
}

bool is_sane_id(std::string_view id) {
  constexpr std::string_view kMarks = "._:-";
  return !id.empty() && id.size() <= 128 && std::ranges::all_of(id, [&](char c) {
    return (c >= '0' && c <= '9') || (lower(c) >= 'a' && lower(c) <= 'z') || kMarks.find(c) != std::string_view::npos;
  });
}

}  // namespace

bool equal_ignoring_case(std::string_view a, std::string_view b) {
  return std::ranges::equal(a, b, [](char x, char y) { return lower(x) == lower(y); });
}

const std::string* find_header(const std::vector<Header>& headers, std::string_view name) {
  const auto found =
      std::ranges::find_if(headers, [&](const Header& header) { return equal_ignoring_case(header.first, name); });
  return found == headers.end() ? nullptr : &found->second;
}

std::string_view Request::header(std::string_view name) const {
  const std::string* value = find_header(headers, name);
  return value == nullptr ? std::string_view() : *value;
}

bool Request::has_header(std::string_view name) const { return find_header(headers, name) != nullptr; }

std::string_view Request::parameter(std::string_view name) const {
  const auto found = std::ranges::find_if(parameters, [&](const auto& pair) { return pair.first == name; });
  return found == parameters.end() ? std::string_view() : found->second;
}

Status require_content_type(const Request& request, std::string_view expected) {
  const std::string_view value = request.header("content-type");
  const std::string_view type = trim(value.substr(0, value.find(';')));
  if (equal_ignoring_case(type, expected)) return {};
  return fail(ErrorCode::kUnsupportedMediaType,
              "expected content-type " + std::string(expected) + "; got " + (type.empty() ? "none" : in_quotes(type)));
}

Result<std::string> percent_decode(std::string_view text) {
  std::string decoded;
  decoded.reserve(text.size());
  for (std::size_t i = 0; i < text.size(); ++i) {
    if (text[i] != '%') {
      decoded += text[i];
    } else {
      const int high = i + 2 < text.size() ? hex_digit(text[i + 1]) : -1;
      const int low = i + 2 < text.size() ? hex_digit(text[i + 2]) : -1;
      if (high < 0 || low < 0) {
        return fail(ErrorCode::kInvalidArgument, "expected two hex digits after '%' in the URL");
      }
      decoded += static_cast<char>(high * 16 + low);
      i += 2;
    }
  }
  if (!is_valid_utf8(decoded)) return fail(ErrorCode::kInvalidArgument, "the URL is not valid UTF-8 once decoded");
  return decoded;
}

Status parse_target(Request& request) {
  const std::string_view target = request.target;
  request.path = target.substr(0, target.find('?'));
  if (target == "*" && request.method == "OPTIONS") return {};
  if (!target.starts_with('/')) {
    return fail(ErrorCode::kInvalidArgument, "expected a request target that starts with '/'");
  }
  return {};
}

Result<std::vector<QueryField>> parse_query(std::string_view target) {
  std::vector<QueryField> fields;
  const std::size_t mark = target.find('?');
  std::string_view rest = mark == std::string_view::npos ? std::string_view() : target.substr(mark + 1);
  while (!rest.empty()) {
    const std::string_view field = rest.substr(0, rest.find('&'));
    rest.remove_prefix(std::min(field.size() + 1, rest.size()));
    if (field.empty()) continue;
    const std::size_t equals = std::min(field.find('='), field.size());
    ASSIGN_OR_RETURN(std::string name, percent_decode(field.substr(0, equals)));
    ASSIGN_OR_RETURN(std::string value, percent_decode(field.substr(std::min(equals + 1, field.size()))));
    fields.emplace_back(std::move(name), std::move(value));
  }
  return fields;
}

std::string choose_request_id(std::string_view proposed) {
  if (is_sane_id(proposed)) return std::string(proposed);
  std::array<unsigned char, 12> random{};
  CHECK(RAND_bytes(random.data(), static_cast<int>(random.size())) == 1, "the system's random source failed");
  std::string id = "req_";
  for (const unsigned char byte : random) {
    constexpr std::string_view kDigits = "0123456789abcdef";
    id += kDigits[byte >> 4U];
    id += kDigits[byte & 15U];
  }
  return id;
}

}  // namespace redpoll::http
