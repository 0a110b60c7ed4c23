// The answer to whether a model fits, for the command and for GET /fit: this machine's numbers, and those of others.
#pragma once

#include <optional>
#include <string>

#include "api/fit.h"
#include "engine/engine.h"
#include "engine/fit/model_footprint.h"

namespace redpoll::server {

struct FitSubject {
  std::string name;  // of the model
  engine::ModelFootprint footprint;
  engine::EngineOptions options;        // with the context and the memory that are asked for
  std::optional<double> read_gb_per_s;  // plain reads of this machine's memory, if they were measured
};

/// Fails as engine::find_fit does.
[[nodiscard]] Result<api::FitReport> make_fit_report(const FitSubject& subject);

}  // namespace redpoll::server
