#include "text/chat_template.h"

#include <ctime>

#include "base/text.h"
#include "text/rust_call.h"

namespace redpoll::text {
namespace {

constexpr std::size_t kMaxReasonBytes = 500;  // templates may put whole messages into their refusals

// Seconds since 1970 on the local clock, which is what `strftime_now` prints.
std::int64_t local_seconds(std::chrono::system_clock::time_point now) {
  const std::time_t seconds = std::chrono::system_clock::to_time_t(now);
  std::tm local{};
  if (localtime_r(&seconds, &local) == nullptr) return seconds;
  return static_cast<std::int64_t>(seconds) + local.tm_gmtoff;
}

}  // namespace

struct ChatTemplate::Native {
  RpTemplate* handle = nullptr;
  Native() = default;
  ~Native() { rp_template_free(handle); }
  Native(const Native&) = delete;
  Native& operator=(const Native&) = delete;
};

ChatTemplate::ChatTemplate(std::unique_ptr<Native> native, TemplateOptions options, std::string_view source)
    : native_(std::move(native)),
      options_(std::move(options)),
      reads_tools_(source.find("tools") != std::string_view::npos),
      tool_call_format_(text::tool_call_format(source)) {}
ChatTemplate::~ChatTemplate() = default;

Result<std::shared_ptr<const ChatTemplate>> ChatTemplate::compile(std::string_view source,
                                                                  const TemplateOptions& options) {
  auto native = std::make_unique<Native>();
  RustBuffer message;
  const RpStatus status = rp_template_new(rust_bytes(source), source.size(), &native->handle, message.out());
  if (status != RP_OK) {
    return rust_failure(status, "chat template does not parse: " + std::string(message.view()),
                        ErrorCode::kInvalidArgument);
  }
  return std::shared_ptr<const ChatTemplate>(new ChatTemplate(std::move(native), options, source));
}

Result<std::string> ChatTemplate::render(const TemplateInput& input, std::chrono::system_clock::time_point now) const {
  json::object context;
  context["messages"] = input.messages;
  context["tools"] = input.tools.empty() ? json::value() : json::value(input.tools);
  context["documents"] = nullptr;
  context["add_generation_prompt"] = input.add_generation_prompt;
  for (const auto& [name, value] : input.kwargs) {
    if (name == "messages" || name == "tools") {
      return fail(ErrorCode::kInvalidArgument,
                  "'chat_template_kwargs' may not set '" + std::string(name) + "', which the request has a field for",
                  "chat_template_kwargs");
    }
    context[name] = value;
  }
  return render_context(context, now);
}

Result<std::string> ChatTemplate::render_context(const json::object& context,
                                                 std::chrono::system_clock::time_point now) const {
  json::object variables = context;
  if (!variables.contains("bos_token")) variables["bos_token"] = options_.bos_token;
  if (!variables.contains("eos_token")) variables["eos_token"] = options_.eos_token;
  const std::string text = dump_json(variables);
  RustBuffer output;
  const RpStatus status =
      rp_template_render(native_->handle, rust_bytes(text), text.size(), local_seconds(now), output.out());
  if (status == RP_OK) return std::string(output.view());
  const std::string reason = shortened(output.view(), kMaxReasonBytes);
  if (status == RP_RAISED) return fail(ErrorCode::kInvalidArgument, reason, "messages");
  return rust_failure(status, "chat template failed: " + reason, ErrorCode::kInvalidArgument);
}

}  // namespace redpoll::text
