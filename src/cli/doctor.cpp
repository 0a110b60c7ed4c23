// `redpoll doctor`: what this machine offers, what is missing, and what to do about it.
#include <sys/utsname.h>

#include <iostream>
#include <memory>

#include "base/json.h"
#include "checkpoint/checkpoint.h"
#include "cli/verbs.h"
#include "engine/available_memory.h"
#include "kernels/cpu/features.h"
#include "kernels/cpu/topology.h"
#include "kernels/device_info.h"
#include "server/model_locator.h"

namespace redpoll::cli {
namespace {

struct Finding {
  std::string name;
  bool fine = true;
  std::string text;  // what was found, or what is wrong and what to do
};

std::string gibibytes(std::size_t bytes) {
  const auto tenths = bytes * 10 / (std::size_t{1} << 30U);
  return std::to_string(tenths / 10) + "." + std::to_string(tenths % 10) + " GiB";
}

Finding describe_system() {
  utsname system{};
  if (::uname(&system) != 0) return {"system", false, "the kernel does not say what it is"};
  return {"system", true, std::string(system.sysname) + " " + system.release + " on " + system.machine};
}

Finding describe_processor() {
  std::string variants;
  for (const auto variant : kernels::cpu::available_variants()) {
    variants += (variants.empty() ? "" : ", ") + std::string(kernels::cpu::variant_name(variant));
  }
  return {"processor", true,
          std::to_string(kernels::cpu::num_usable_cores()) + " usable cores; kernel variants " + variants};
}

Finding describe_memory() {
  return {"memory", true, gibibytes(engine::available_memory_bytes()) + " usable, of which 75 % is the default budget"};
}

Finding describe_starter() {
  auto location = server::locate_model("", server::ModelPlaces::from_environment());
  if (!location) return {"default model", false, location.error().message};
  auto opened = checkpoint::open_checkpoint(location->path);
  if (!opened) return {"default model", false, opened.error().message};
  return {"default model", true, location->name + " (" + opened->config.model_type + ") at " + location->path.string()};
}

std::vector<Finding> examine() {
  const kernels::DeviceInfo device = kernels::describe_device();
  return {describe_system(),
          describe_processor(),
          describe_memory(),
          {"mlx", true, device.mlx_version + " on " + device.device + ", kernel set " + device.kernel_set},
          describe_starter()};
}

int run(bool as_json) {
  const std::vector<Finding> findings = examine();
  bool fine = true;
  json::array rows;
  for (const Finding& finding : findings) {
    fine = fine && finding.fine;
    if (as_json) {
      rows.push_back(json::object{{"name", finding.name}, {"ok", finding.fine}, {"text", finding.text}});
    } else {
      std::cout << (finding.fine ? "ok       " : "MISSING  ") << finding.name << ": " << finding.text << '\n';
    }
  }
  if (as_json) std::cout << dump_json(rows) << '\n';
  return fine ? kExitFine : kExitFailed;
}

}  // namespace

void add_doctor(CommandLine& command_line) {
  const auto as_json = std::make_shared<bool>(false);
  FlagSet& flags = command_line.add_verb("doctor", "Say what this machine offers and what is missing",
                                         [as_json] { return run(*as_json); });
  flags.toggle("--json", *as_json, "As a list of objects with name, ok and text");
}

}  // namespace redpoll::cli
