// `redpoll doctor`: what this machine offers, what is missing, and what to do about it.
#include <sys/utsname.h>

#include <iostream>
#include <memory>

#include "base/json.h"
#include "base/text.h"
#include "checkpoint/checkpoint.h"
#include "cli/shared_flags.h"
#include "cli/verbs.h"
#include "engine/available_memory.h"
#include "engine/model_memory.h"
#include "kernels/cpu/features.h"
#include "kernels/cpu/topology.h"
#include "kernels/device_info.h"
#include "server/model_locator.h"
#include "server/served_model.h"
#include "text/tokenizer.h"

namespace redpoll::cli {
namespace {

struct DoctorVerb {
  std::string model;
  bool as_json = false;
};

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

std::string kibibytes(std::size_t bytes) { return std::to_string((bytes + 1023) / 1024) + " KiB"; }

/// Whether a model loads here, in what memory, or why not.
Finding describe_model(const std::string& name) {
  auto location = server::locate_model(name, server::ModelPlaces::from_environment());
  if (!location) return {"model", false, location.error().message};
  auto opened = checkpoint::open_checkpoint(location->path);
  if (!opened) return {"model", false, opened.error().message};
  const auto outlook = engine::look_at(*opened, {});
  if (!outlook) return {"model", false, outlook.error().message};
  std::string text = location->name + " (" + outlook->model_type + ") loads: " + gibibytes(outlook->weight_bytes) +
                     " of weights, " + kibibytes(outlook->kv_bytes_per_token) + " of cache a token";
  if (outlook->fixed_bytes > 0) text += " and " + kibibytes(outlook->fixed_bytes) + " a sequence";
  text += "; with the default budget of " + gibibytes(outlook->plan.budget_bytes) + " a context of " +
          std::to_string(outlook->plan.max_context) + " tokens, of the model's " +
          std::to_string(outlook->model_context);
  if (const Status status = server::check_tokenizer(*opened); !status) {
    return {"model", false, text + "; but " + status.error().message};
  }
  if (const auto tokenizer = text::Tokenizer::from_json(opened->tokenizer_json); !tokenizer) {
    return {"model", false, text + "; but " + tokenizer.error().message};
  }
  return {"model", true, text};
}

std::vector<Finding> examine(const std::string& model) {
  const kernels::DeviceInfo device = kernels::describe_device();
  return {describe_system(),
          describe_processor(),
          describe_memory(),
          {"mlx", true, device.mlx_version + " on " + device.device + ", kernel set " + device.kernel_set},
          model.empty() ? describe_starter() : describe_model(model)};
}

int run(const DoctorVerb& verb) {
  const std::vector<Finding> findings = examine(verb.model);
  bool fine = true;
  json::array rows;
  for (const Finding& finding : findings) {
    fine = fine && finding.fine;
    const std::string text = printable(finding.text);  // it quotes files of strangers
    if (verb.as_json) {
      rows.push_back(json::object{{"name", finding.name}, {"ok", finding.fine}, {"text", text}});
    } else {
      std::cout << (finding.fine ? "ok       " : "MISSING  ") << finding.name << ": " << text << '\n';
    }
  }
  if (verb.as_json) std::cout << dump_json(rows) << '\n';
  return fine ? kExitFine : kExitFailed;
}

}  // namespace

void add_doctor(CommandLine& command_line) {
  const auto verb = std::make_shared<DoctorVerb>();
  FlagSet& flags =
      command_line.add_verb("doctor", "Say what this machine offers and what is missing, or whether a model loads here",
                            [verb] { return run(*verb); });
  add_model_flag(flags, verb->model);
  flags.toggle("--json", verb->as_json, "As a list of objects with name, ok and text");
}

}  // namespace redpoll::cli
