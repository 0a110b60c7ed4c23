#include "engine/fit/common_machines.h"

namespace redpoll::engine {

std::span<const MachineClass> machine_classes() {
  // Of a chip that is sold with memory of several speeds, the fastest. A graphics card's memory is its own.
  static const std::vector<MachineClass> kClasses = {
      {"Apple M1", 68, {8, 16}},
      {"Apple M1 Pro", 200, {16, 32}},
      {"Apple M1 Max", 400, {32, 64}},
      {"Apple M1 Ultra", 800, {64, 128}},
      {"Apple M2", 100, {8, 16, 24}},
      {"Apple M2 Pro", 200, {16, 32}},
      {"Apple M2 Max", 400, {32, 64, 96}},
      {"Apple M2 Ultra", 800, {64, 128, 192}},
      {"Apple M3", 100, {8, 16, 24}},
      {"Apple M3 Pro", 150, {18, 36}},
      {"Apple M3 Max", 400, {48, 64, 128}},
      {"Apple M3 Ultra", 819, {96, 256, 512}},
      {"Apple M4", 120, {16, 24, 32}},
      {"Apple M4 Pro", 273, {24, 48, 64}},
      {"Apple M4 Max", 546, {48, 64, 128}},
      {"PC, 2 x DDR4-3200", 51.2, {16, 32, 64}},
      {"PC, 2 x DDR5-5600", 89.6, {32, 64, 96}},
      {"NVIDIA RTX 3090", 936, {24}},
      {"NVIDIA RTX 4090", 1008, {24}},
      {"NVIDIA RTX 5090", 1792, {32}},
      {"NVIDIA H100 SXM", 3350, {80}},
      {"NVIDIA H200 SXM", 4800, {141}},
  };
  return kClasses;
}

}  // namespace redpoll::engine
