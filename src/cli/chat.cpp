// `redpoll chat`: a conversation in the terminal.
#include <cstdlib>
#include <iostream>
#include <memory>

#include "cli/flags.h"
#include "cli/line_editor.h"
#include "cli/model_session.h"
#include "cli/verbs.h"
#include "server/prepare.h"

namespace redpoll::cli {
namespace {

constexpr std::string_view kHelp =
    "/help            this list\n"
    "/system TEXT     begin again with this system message\n"
    "/clear           begin again\n"
    "/undo            forget the last question and its answer\n"
    "/retry           answer the last question again\n"
    "/exit            leave (or Ctrl-D)\n"
    "A line that ends with \\ goes on; \"\"\" alone begins and ends a text of several lines. Ctrl-C stops an answer.\n";

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

class Chat {
 public:
  Chat(server::ServedModel& model, const ChatOptions& options)
      : model_(model), options_(options), editor_(history_file()) {
    clear();
  }

  int run() {
    std::cout << "Chatting with " << model_.id << ". /help lists the commands.\n";
    for (;;) {
      const auto input = read_message();
      if (!input || *input == "/exit" || *input == "/quit") break;
      if (input->empty()) continue;
      editor_.remember(*input);
      if (input->starts_with('/')) {
        command(*input);
      } else {
        messages_.push_back(json::object{{"role", "user"}, {"content", *input}});
        answer();
      }
    }
    std::cout << '\n';
    return kExitFine;
  }

 private:
  // One message, which may have several lines; nullopt at the end of input.
  std::optional<std::string> read_message() {
    auto line = editor_.read_line("> ");
    if (!line) return std::nullopt;
    if (*line == R"(""")") return read_block();
    std::string text = *line;
    while (text.ends_with('\\')) {
      text.back() = '\n';
      line = editor_.read_line(". ");
      if (!line) break;
      text += *line;
    }
    return text;
  }
  std::optional<std::string> read_block() {
    std::string text;
    for (;;) {
      const auto line = editor_.read_line(". ");
      if (!line || *line == R"(""")") return text;
      text += (text.empty() ? "" : "\n") + *line;
    }
  }

  void clear() {
    messages_.clear();
    if (!options_.system.empty()) messages_.push_back(json::object{{"role", "system"}, {"content", options_.system}});
  }
  // Drops messages from the end up to and including the last one of the user, if there is one.
  bool drop_turn() {
    for (std::size_t i = messages_.size(); i-- > 0;) {
      if (messages_[i].as_object().at("role") != "user") continue;
      messages_.erase(messages_.begin() + static_cast<std::ptrdiff_t>(i), messages_.end());
      return true;
    }
    return false;
  }

  void command(const std::string& input) {
    const std::string word = input.substr(0, input.find(' '));
    if (word == "/help") {
      std::cout << kHelp;
    } else if (word == "/clear") {
      clear();
    } else if (word == "/system") {
      options_.system = input.size() > word.size() ? input.substr(word.size() + 1) : "";
      clear();
    } else if (word == "/undo") {
      if (!drop_turn()) std::cout << "There is nothing to undo.\n";
    } else if (word == "/retry") {
      retry();
    } else {
      std::cout << "There is no command " << word << "; /help lists them.\n";
    }
  }
  void retry() {
    for (std::size_t i = messages_.size(); i-- > 0;) {
      if (messages_[i].as_object().at("role") != "user") continue;
      messages_.resize(i + 1);
      answer();
      return;
    }
    std::cout << "There is no question to answer again.\n";
  }

  void answer() {
    api::ChatRequest request;
    request.conversation.messages = messages_;
    request.options = options_.generation;
    auto prepared = server::prepare_chat(model_, {}, request);
    auto answered = prepared ? generate_answer(model_, std::move(*prepared),
                                               [](std::string_view text) { std::cout << text << std::flush; })
                             : Result<api::Answer>(std::unexpected(prepared.error()));
    std::cout << '\n';
    if (!answered) {
      report(answered.error());
      (void)drop_turn();  // so that the next question does not follow one without an answer
      return;
    }
    messages_.push_back(json::object{{"role", "assistant"}, {"content", answered->choices.front().text}});
  }

  server::ServedModel& model_;
  ChatOptions options_;
  LineEditor editor_;
  json::array messages_;
};

int run(const ChatOptions& options) {
  auto model = load_model(options.model, options.engine);
  if (!model) return report(model.error());
  return Chat(**model, options).run();
}

}  // namespace

void add_chat(CommandLine& command_line) {
  const auto options = std::make_shared<ChatOptions>();
  CLI::App& app = command_line.add_verb("chat", "Talk to a model in the terminal", [options] {
    configure_log({.level = LogLevel::kWarn});
    return run(*options);
  });
  add_flag_value(app, "MODEL,--model", options->model, "As for serve");
  app.add_option("--system", options->system, "A system message to begin with");
  add_sampling_flags(app, options->generation);
  add_engine_flags(app, options->engine, Batching::kOne);
}

}  // namespace redpoll::cli
