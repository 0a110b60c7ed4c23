// `redpoll version`: of this program and of what it stands on.
#include <boost/version.hpp>
#include <iostream>
#include <memory>

#include "base/json.h"
#include "cli/verbs.h"
#include "kernels/device_info.h"
#include "text/versions.h"

namespace redpoll::cli {
namespace {

std::string boost_version() {
  return std::to_string(BOOST_VERSION / 100000) + "." + std::to_string(BOOST_VERSION / 100 % 1000) + "." +
         std::to_string(BOOST_VERSION % 100);
}

int print_version(bool as_json) {
  json::object versions;
  versions["redpoll"] = REDPOLL_VERSION;
  versions["mlx"] = kernels::describe_device().mlx_version;
  for (const auto& [name, version] : text::library_versions()) versions[name] = version;
  versions["boost"] = boost_version();
  versions["compiler"] = __VERSION__;
  if (as_json) {
    std::cout << dump_json(versions) << '\n';
    return kExitFine;
  }
  for (const auto& member : versions) {
    std::cout << std::string_view(member.key()) << ' ' << std::string_view(member.value().as_string()) << '\n';
  }
  return kExitFine;
}

}  // namespace

void add_version(CommandLine& command_line) {
  const auto as_json = std::make_shared<bool>(false);
  FlagSet& flags = command_line.add_verb("version", "Print versions", [as_json] { return print_version(*as_json); });
  flags.toggle("--json", *as_json, "As one JSON object");
}

}  // namespace redpoll::cli
