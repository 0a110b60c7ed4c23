// `redpoll doctor`: what this machine offers, what is missing, and what to do about it.
#include <sys/utsname.h>

#include <filesystem>
#include <iostream>
#include <memory>

#include "base/json.h"
#include "base/text.h"
#include "bench/table.h"
#include "checkpoint/checkpoint.h"
#include "cli/shared_flags.h"
#include "cli/verbs.h"
#include "engine/available_memory.h"
#include "engine/disk/ssd_cache.h"
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
  server::EngineSettings engine;
  bool as_json = false;
};

struct Finding {
  std::string name;
  bool fine = true;
  std::string text;  // what was found, or what is wrong and what to do
};

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
  return {"memory", true,
          bench::format_bytes(engine::available_memory_bytes()) + " usable, of which 75 % is the default budget"};
}

std::string describe_outlook(const engine::ModelOutlook& outlook, const server::EngineSettings& settings) {
  std::string text = " (" + outlook.model_type + ") loads: " + bench::format_bytes(outlook.weight_bytes) +
                     " of weights, " + bench::format_bytes(outlook.kv_bytes_per_token) + " of cache a token";
  if (outlook.fixed_bytes > 0) text += " and " + bench::format_bytes(outlook.fixed_bytes) + " a sequence";
  if (settings.kv_quantization != kernels::KvQuantization::kOff) {
    text += " with --kv-quant " + std::string(kernels::kv_quantization_name(settings.kv_quantization));
  }
  const std::string budget = settings.memory_budget_gb > 0 ? "a budget of " : "the default budget of ";
  return text + "; with " + budget + bench::format_bytes(outlook.plan.budget_bytes) + " a context of " +
         std::to_string(outlook.plan.max_context) + " tokens, of the model's " + std::to_string(outlook.model_context);
}

/// Whether a model loads here, in what memory, or why not.
Finding describe_model(const DoctorVerb& verb) {
  const std::string name = verb.model.empty() ? "default model" : "model";
  auto location = server::locate_model(verb.model, server::ModelPlaces::from_environment());
  if (!location) return {name, false, location.error().message};
  auto opened = checkpoint::open_checkpoint(location->path);
  if (!opened) return {name, false, opened.error().message};
  kernels::KernelOptions kernels = verb.engine.kernel_options();
  kernels.num_threads = 1;  // which compute nothing
  const auto outlook = engine::look_at(*opened, kernels, server::engine_options(verb.engine));
  if (!outlook) return {name, false, outlook.error().message};
  const std::string text =
      location->name + describe_outlook(*outlook, verb.engine) + "; it is at " + location->path.string();
  if (const Status status = server::check_tokenizer(*opened); !status) {
    return {name, false, text + "; but " + status.error().message};
  }
  if (const auto tokenizer = text::Tokenizer::from_json(opened->tokenizer_json); !tokenizer) {
    return {name, false, text + "; but " + tokenizer.error().message};
  }
  return {name, true, text};
}

Finding describe_ssd_cache(const engine::SsdCacheOptions& options) {
  const std::string directory = options.directory.string();
  std::error_code ignored;
  if (!std::filesystem::exists(options.directory, ignored)) {
    if (const Status status = engine::check_could_be_made(options); !status) {
      return {"disk cache", false, status.error().message};
    }
    return {"disk cache", true, directory + " is not there yet; serve makes it"};
  }
  const auto check = engine::check_directory(options);
  if (!check) return {"disk cache", false, check.error().message};
  if (!check->warning.empty()) return {"disk cache", false, check->warning + "; what is there can be read"};
  return {"disk cache", true, directory + " can be written into, and by nobody else"};
}

std::vector<Finding> examine(const DoctorVerb& verb) {
  const kernels::DeviceInfo device = kernels::describe_device();
  std::vector<Finding> findings = {
      describe_system(),
      describe_processor(),
      describe_memory(),
      {"mlx", true, device.mlx_version + " on " + device.device + ", kernel set " + device.kernel_set},
      describe_model(verb)};
  if (const auto ssd_cache = server::engine_options(verb.engine).ssd_cache) {
    findings.push_back(describe_ssd_cache(*ssd_cache));
  }
  return findings;
}

int run(const DoctorVerb& verb) {
  if (const auto conflict = conflict_of(verb.engine)) return report_usage("doctor", *conflict);
  const std::vector<Finding> findings = examine(verb);
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
  add_context_length_flag(flags, verb->engine);
  add_memory_flags(flags, verb->engine);
  flags.toggle("--json", verb->as_json, "As a list of objects with name, ok and text");
}

}  // namespace redpoll::cli
