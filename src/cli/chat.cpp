// `redpoll chat`: a conversation in the terminal.
#include <cstdlib>
#include <iostream>
#include <memory>
#include <optional>
#include <utility>

#include "cli/interrupt.h"
#include "cli/line_editor.h"
#include "cli/model_session.h"
#include "cli/shared_flags.h"
#include "cli/suggestions.h"
#include "cli/verbs.h"
#include "server/prepare.h"

namespace redpoll::cli {
namespace {

constexpr std::string_view kHelp =
    "/help            this list\n"
    "/system TEXT     begin again with this system message; without TEXT, with none\n"
    "/clear           begin again\n"
    "/undo            forget the last question and its answer\n"
    "/retry           answer the last question again\n"
    "/exit, /quit     leave, as Ctrl-D does\n"
    "A line that ends with \\ goes on in the next. \"\"\" alone on a line begins and ends a text of several lines.\n"
    "Ctrl-C stops an answer, or forgets what is being typed.\n";

constexpr std::string_view kBlockMark = R"(""")";

struct ChatOptions {
  std::string model;
  std::string system;
  server::EngineSettings engine;
  api::GenerationOptions generation;
};

std::filesystem::path history_file() {
  const char* state = std::getenv("XDG_STATE_HOME");
  const char* home = std::getenv("HOME");
  const std::filesystem::path base = state != nullptr && *state != '\0' ? std::filesystem::path(state)
                                     : home != nullptr                  ? std::filesystem::path(home) / ".local/state"
                                                                        : std::filesystem::path(".");
  return base / "redpoll" / "chat_history";
}

// The conversation. Standard output gets answers only; everything said about them goes to standard error.
class Chat {
 public:
  Chat(server::ServedModel& model, ChatOptions options)
      : model_(model), options_(std::move(options)), editor_(history_file()) {
    clear();
  }

  int run() {
    std::optional<InterruptGuard> guard;  // Ctrl-C a moment after an answer must not end the conversation
    if (editor_.interactive()) {
      guard.emplace();
      std::cerr << "Chatting with " << model_.id << ". /help lists the commands.\n";
    }
    while (!left_) {
      const Line message = read_message();
      if (message.kind == Line::Kind::kEnd) break;
      if (message.kind == Line::Kind::kText) take(message.text);
    }
    return failed_ && !editor_.interactive() ? kExitFailed : kExitFine;
  }

 private:
  // One message, which may have several lines. What the end of the input cuts off counts.
  Line read_message() {
    Line message = editor_.read_line("> ");
    if (message.kind == Line::Kind::kText && message.text == kBlockMark) return read_block();
    while (message.kind == Line::Kind::kText && message.text.ends_with('\\')) {
      message.text.back() = '\n';
      const Line line = editor_.read_line(". ");
      if (line.kind == Line::Kind::kEnd) break;
      message.kind = line.kind;
      message.text += line.text;
    }
    return message;
  }
  Line read_block() {
    Line block;
    for (bool first = true;; first = false) {
      Line line = editor_.read_line(". ");
      if (line.kind == Line::Kind::kInterrupted) return line;
      if (line.kind == Line::Kind::kEnd || line.text == kBlockMark) return block;
      block.text += (first ? "" : "\n") + line.text;
    }
  }

  void take(const std::string& text) {
    if (text.find_first_not_of(" \t\r\n") == std::string::npos) return;
    editor_.remember(text);
    if (text.starts_with('/')) return command(text);
    if (const Status valid = check_utf8(text); !valid) return refuse(valid.error());
    messages_.push_back(json::object{{"role", "user"}, {"content", text}});
    answer();
  }

  void command(const std::string& input) {
    const std::string word = input.substr(0, input.find(' '));
    if (word == "/help") {
      std::cerr << kHelp;
    } else if (word == "/clear") {
      clear();
    } else if (word == "/system") {
      set_system(input.size() > word.size() ? input.substr(word.size() + 1) : "");
    } else if (word == "/undo") {
      if (!drop_turn()) std::cerr << "There is nothing to undo.\n";
    } else if (word == "/retry") {
      retry();
    } else if (word == "/exit" || word == "/quit") {
      left_ = true;
    } else {
      std::cerr << "There is no command " << shown_value(word)
                << did_you_mean(word, {"/help", "/system", "/clear", "/undo", "/retry", "/exit", "/quit"})
                << "\n/help lists them; a message that begins with / goes between lines of \"\"\".\n";
    }
  }

  void set_system(const std::string& text) {
    if (const Status valid = check_utf8(text); !valid) return refuse(valid.error());
    options_.system = text;
    clear();
  }
  void clear() {
    messages_.clear();
    if (!options_.system.empty()) messages_.push_back(json::object{{"role", "system"}, {"content", options_.system}});
  }

  // Where the last message of the user is.
  [[nodiscard]] std::optional<std::size_t> last_question() const {
    for (std::size_t i = messages_.size(); i-- > 0;) {
      if (messages_[i].as_object().at("role") == "user") return i;
    }
    return std::nullopt;
  }
  bool drop_turn() {
    const auto question = last_question();
    if (question) messages_.resize(*question);
    return question.has_value();
  }
  void retry() {
    const auto question = last_question();
    if (!question) {
      std::cerr << "There is no question to answer again.\n";
      return;
    }
    messages_.resize(*question + 1);
    answer();
  }

  void answer() {
    auto local = say_answer();
    std::cout << std::endl;
    if (!local) return refuse_question(local.error());
    const std::string& text = local->answer.choices.front().text;
    if (local->interrupted) std::cerr << "(stopped)\n";
    if (local->interrupted && text.empty()) {
      (void)drop_turn();
    } else {
      messages_.push_back(json::object{{"role", "assistant"}, {"content", text}});
    }
  }
  Result<LocalAnswer> say_answer() {
    api::ChatRequest request;
    request.conversation.messages = messages_;
    request.options = options_.generation;
    ASSIGN_OR_RETURN(server::PreparedGeneration prepared, server::prepare_chat(model_, {}, request));
    return generate_answer(model_, std::move(prepared), [](std::string_view text) { std::cout << text << std::flush; });
  }

  void refuse(const Error& error) {
    failed_ = true;
    report(error);
  }
  // The next question must not follow one without an answer.
  void refuse_question(const Error& error) {
    refuse(error);
    (void)drop_turn();
  }

  server::ServedModel& model_;
  ChatOptions options_;
  LineEditor editor_;
  json::array messages_;
  bool left_ = false;
  bool failed_ = false;
};

int run(const ChatOptions& options) {
  if (const auto conflict = conflict_of(options.engine)) return report_usage("chat", *conflict);
  auto model = load_model(options.model, options.engine);
  if (!model) return report(model.error());
  if (!(*model)->chat_template) {
    return report({ErrorCode::kInvalidArgument,
                   "model '" + (*model)->id +
                       "' has no chat template, so it cannot chat; `redpoll generate --raw` "
                       "continues a text",
                   {}});
  }
  return Chat(**model, options).run();
}

}  // namespace

void add_chat(CommandLine& command_line) {
  const auto options = std::make_shared<ChatOptions>();
  FlagSet& flags = command_line.add_verb("chat", "Talk to a model in the terminal", [options] {
    configure_log({.level = LogLevel::kWarn});
    return run(*options);
  });
  flags.group("Model");
  add_model_flag(flags, options->model);
  flags.group("Conversation");
  flags.any_text("--system", "TEXT", options->system, "A system message to begin with");
  flags.whole("--max-tokens", options->generation.max_tokens, {1, 1'000'000'000}, "Tokens in an answer at most")
      .or_else("what the context leaves");
  add_sampling_flags(flags, options->generation);
  add_engine_flags(flags, options->engine, Batching::kOne);
}

}  // namespace redpoll::cli
