#include "checkpoint/checkpoint.h"

#include "base/file.h"
#include "base/utf8.h"
#include "checkpoint/fingerprint.h"
#include "checkpoint/gguf/file.h"
#include "checkpoint/gguf/model.h"
#include "checkpoint/gguf/tokenizer.h"
#include "checkpoint/near_matches.h"
#include "checkpoint/safetensors.h"
#include "checkpoint/tokenizer_files.h"
#include "checkpoint/turn_end.h"

namespace redpoll::checkpoint {
namespace {

namespace fs = std::filesystem;

std::unexpected<Error> missing_path(const fs::path& path) {
  std::string message = "no model at " + path.string();
  std::string_view separator = "; did you mean ";
  for (const std::string& name : near_matches(path)) {
    message += std::string(separator) + name;
    separator = " or ";
  }
  return fail(ErrorCode::kNotFound, separator == " or " ? message + "?" : message);
}

std::unexpected<Error> missing_config(const fs::path& folder) {
  std::string message = folder.string() + " holds no config.json, so it is not a model folder";
  std::error_code error;
  for (const fs::directory_entry& entry : fs::directory_iterator(folder, error)) {
    if (entry.path().extension() != ".gguf") continue;
    message += "; to use " + entry.path().filename().string() + ", give the path of that file";
    break;
  }
  return fail(ErrorCode::kNotFound, std::move(message));
}

// The last part of a path, also of one that ends in a slash.
std::string base_name(const fs::path& path) {
  return (path.has_filename() ? path : path.parent_path()).filename().string();
}

// A tensor as the fingerprint knows it.
std::string tensor_text(const std::string& name, std::string_view type, std::span<const std::int64_t> shape) {
  return name + " " + std::string(type) + " " + shape_text(shape);
}

// What both formats have in common once their parts are read.
void finish(Checkpoint& checkpoint) {
  if (!checkpoint.config.raw.contains("tie_word_embeddings")) {
    checkpoint.config.tie_word_embeddings = !checkpoint.parameters.contains("lm_head.weight") &&
                                            !checkpoint.parameters.contains("language_model.lm_head.weight");
  }
  std::vector<TokenId>& ids = checkpoint.tokenizer.eos_ids;
  for (const auto* more : {&checkpoint.config.eos_token_ids, &checkpoint.generation.eos_token_ids}) {
    ids.insert(ids.end(), more->begin(), more->end());
  }
  normalise_ids(ids);
}

Result<Checkpoint> open_folder(const fs::path& folder) {
  const fs::path config_path = folder / "config.json";
  constexpr std::size_t kMaxConfigBytes = 16'000'000;
  const auto config_text = read_file(config_path, kMaxConfigBytes);
  if (!config_text && config_text.error().code == ErrorCode::kNotFound) return missing_config(folder);
  if (!config_text) return std::unexpected(config_text.error());

  Checkpoint checkpoint;
  checkpoint.path = folder;
  checkpoint.source_format = "safetensors";
  checkpoint.name = base_name(folder);
  auto config = parse_config(*config_text);
  if (!config) return in_file(config_path, std::move(config).error());
  checkpoint.config = std::move(*config);
  auto quantization = QuantizationTable::parse(checkpoint.config.raw);
  if (!quantization) return in_file(config_path, std::move(quantization).error());
  checkpoint.quantization = std::move(*quantization);

  ASSIGN_OR_RETURN(SafetensorsFolder weights, open_safetensors_folder(folder));
  checkpoint.parameters = std::move(weights.parameters);
  ASSIGN_OR_RETURN(TokenizerFiles tokenizer, read_tokenizer_files(folder));
  checkpoint.tokenizer_json = std::move(tokenizer.json);
  checkpoint.tokenizer = std::move(tokenizer.info);
  checkpoint.chat_template = std::move(tokenizer.chat_template);
  checkpoint.named_chat_templates = std::move(tokenizer.named_chat_templates);
  ASSIGN_OR_RETURN(checkpoint.generation, read_generation_defaults(folder));
  checkpoint.license = read_license(folder);
  finish(checkpoint);
  std::vector<std::string> tensors;
  for (const std::string& name : checkpoint.parameters.names()) {
    const Tensor tensor = *checkpoint.parameters.read(name);
    tensors.push_back(tensor_text(name, dtype_name(tensor.dtype), tensor.shape));
  }
  checkpoint.fingerprint = fingerprint(*config_text, tensors, weights.files);
  checkpoint.files = std::move(weights.files);
  return checkpoint;
}

Status read_gguf_texts(const GgufFile& file, Checkpoint& checkpoint) {
  const auto text = [&](std::string_view key) -> Result<std::optional<std::string>> {
    ASSIGN_OR_RETURN(const auto view, file.text(key));
    if (!view) return std::nullopt;
    return replace_invalid_utf8(*view);
  };
  ASSIGN_OR_RETURN(const auto name, text("general.name"));
  ASSIGN_OR_RETURN(const auto license, text("general.license"));
  ASSIGN_OR_RETURN(checkpoint.chat_template, text("tokenizer.chat_template"));
  checkpoint.name = name.value_or(base_name(checkpoint.path));
  checkpoint.license = license.value_or("");
  ASSIGN_OR_RETURN(const GgufArray* names, file.array("tokenizer.chat_templates"));
  if (names == nullptr) return {};
  for (const std::string_view other : names->texts) {
    ASSIGN_OR_RETURN(auto value, text("tokenizer.chat_template." + std::string(other)));
    if (value) checkpoint.named_chat_templates[replace_invalid_utf8(other)] = std::move(*value);
  }
  return {};
}

Result<Checkpoint> open_gguf(const fs::path& path) {
  ASSIGN_OR_RETURN(const std::shared_ptr<const MappedFile> mapped, MappedFile::open(path));
  ASSIGN_OR_RETURN(const GgufFile file, GgufFile::parse(mapped->bytes(), mapped, path.string()));
  Checkpoint checkpoint;
  checkpoint.path = path;
  checkpoint.source_format = "gguf";
  RETURN_IF_ERROR(read_gguf_texts(file, checkpoint));

  ASSIGN_OR_RETURN(json::object raw, read_gguf_config(file));
  ASSIGN_OR_RETURN(GgufTokenizer tokenizer, read_gguf_tokenizer(file));
  checkpoint.tokenizer_json = std::move(tokenizer.json);
  checkpoint.tokenizer = std::move(tokenizer.info);
  for (const auto& [role, name] :
       {std::pair{&checkpoint.tokenizer.bos, "bos_token_id"}, std::pair{&checkpoint.tokenizer.eos, "eos_token_id"},
        std::pair{&checkpoint.tokenizer.pad, "pad_token_id"}}) {
    if (*role) raw[name] = *(*role)->id;
  }
  const std::string config_text = dump_json(raw);
  auto config = config_from_json(std::move(raw));
  if (!config) return in_file(path, std::move(config).error());
  checkpoint.config = std::move(*config);
  auto quantization = QuantizationTable::parse(checkpoint.config.raw);
  if (!quantization) return in_file(path, std::move(quantization).error());
  checkpoint.quantization = std::move(*quantization);
  ASSIGN_OR_RETURN(checkpoint.parameters, read_gguf_parameters(file, checkpoint.config));
  finish(checkpoint);
  std::vector<std::string> tensors;
  for (const GgufTensor& tensor : file.tensors()) {
    tensors.push_back(tensor_text(tensor.name, gguf_type_name(tensor.type), tensor.shape));
  }
  checkpoint.fingerprint = fingerprint(config_text, tensors, {&mapped, 1});
  checkpoint.files = {mapped};
  return checkpoint;
}

}  // namespace

std::string identity_of_contents(const Checkpoint& checkpoint) {
  return whole_fingerprint(checkpoint.fingerprint, checkpoint.files);
}

Result<Checkpoint> open_checkpoint(const fs::path& folder_or_gguf) {
  std::error_code error;
  const fs::file_status status = fs::status(folder_or_gguf, error);
  if (!fs::exists(status)) return missing_path(folder_or_gguf);
  if (fs::is_directory(status)) return open_folder(folder_or_gguf);
  if (folder_or_gguf.extension() == ".safetensors") {
    return fail(ErrorCode::kInvalidArgument,
                folder_or_gguf.string() + " holds weights only; give the path of the folder that it is in");
  }
  return open_gguf(folder_or_gguf);
}

}  // namespace redpoll::checkpoint
