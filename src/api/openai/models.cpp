#include "api/openai/models.h"

#include "base/json.h"

namespace redpoll::api::openai {
namespace {

json::object model_object(const ModelInfo& model) {
  json::object out;
  out["id"] = model.id;
  out["object"] = "model";
  out["created"] = model.created;
  out["owned_by"] = "redpoll";
  out["context_window"] = model.context_window;
  return out;
}

}  // namespace

std::string format_model(const ModelInfo& model) { return dump_json(model_object(model)); }

std::string format_model_list(std::span<const ModelInfo> models) {
  json::array data;
  for (const ModelInfo& model : models) data.emplace_back(model_object(model));
  json::object out;
  out["object"] = "list";
  out["data"] = std::move(data);
  return dump_json(std::move(out));
}

}  // namespace redpoll::api::openai
