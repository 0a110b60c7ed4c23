// What decides, beside a model, its options and the machine, which bits are computed: the sources of the engine and all
// below it, and their compiler. What one build has kept on disk another uses only if it has the same.
#pragma once

#include <string_view>

namespace redpoll::engine {

/// SHA-256 as hex. The build writes its definition; see cmake/NumericsIdentity.cmake.
[[nodiscard]] std::string_view numerics_identity();

}  // namespace redpoll::engine
