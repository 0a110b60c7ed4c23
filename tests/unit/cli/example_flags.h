// A verb's flags of every kind, for the tests of cli/.
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "cli/flag_set.h"

namespace redpoll::cli {

struct ExampleFlags {
  std::string model = "none";
  int max_batch = 8;
  std::optional<float> temperature;
  bool insecure = false;
  std::vector<std::string> hosts;
  std::string bits = "off";
  std::string config;
  FlagSet flags;

  ExampleFlags() {
    flags.group("Model");
    flags.any_text("--model", "M", model, "Which one").or_else("the starter model");
    flags.take_argument("MODEL", "--model");
    flags.group("Engine");
    flags.whole("--max-batch", max_batch, {1, 256}, "Sequences computed in one step");
    flags.number("--temperature", temperature, {0, 2}, "0 takes the likeliest token");
    flags.toggle("--insecure", insecure, "Without keys");
    flags.list("--allow-host", "HOST", hosts, "Host name that clients may use");
    flags.add({.name = "--bits",
               .value_name = "NAME",
               .kind = FlagKind::kWord,
               .description = "off, 8 or 4",
               .set = [this](std::string_view value) -> Status {
                 if (value != "off" && value != "8" && value != "4") {
                   return fail(ErrorCode::kInvalidArgument, "expected off, 8 or 4, got " + shown_value(value));
                 }
                 bits = value;
                 return {};
               }});
    flags.text("--config", "FILE", config, "Settings");
  }
};

}  // namespace redpoll::cli
