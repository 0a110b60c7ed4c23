// What memory and what memory bandwidth common machines have, by their makers' data sheets: to compare, before one of
// them is bought, what a model would do there.
#pragma once

#include <span>
#include <string_view>
#include <vector>

namespace redpoll::engine {

struct MachineClass {
  std::string_view name;
  double read_gb_per_s = 0;     // 10^9 bytes
  std::vector<int> memory_gib;  // with which it is sold
};

[[nodiscard]] std::span<const MachineClass> machine_classes();

}  // namespace redpoll::engine
