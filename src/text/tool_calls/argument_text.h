// The text that stands between the tags of a parameter, without what the markup adds to it.
#pragma once

#include <string>
#include <string_view>

namespace redpoll::text {

inline constexpr std::string_view kSectionBegin = "<![CDATA[";
inline constexpr std::string_view kSectionEnd = "]]>";

/// Without one line break at each end: tags stand on lines of their own.
[[nodiscard]] std::string_view between_lines(std::string_view value);

/// As in XML: CDATA sections hold their text as it is, elsewhere entities stand for characters (the five that XML
/// names, and numbers; others are text). White space around sections goes, all other stays. Templates that wrap a text
/// into one section look for no "]]>" in it, so where XML would have one outside of sections, all is one section.
[[nodiscard]] std::string xml_text(std::string_view value);

}  // namespace redpoll::text
