"""`redpoll chat`: in a pipe and at a terminal."""

import shutil
import subprocess

import pytest

from server_process import ROOT, clean_environment, program
from terminal import Terminal

FLAGS = ["chat", "--temperature", "0", "--max-tokens", "12"]
PROMPT = "> "


@pytest.fixture
def env(tmp_path) -> dict[str, str]:
    return clean_environment(HOME=str(tmp_path), XDG_STATE_HOME=str(tmp_path), TERM="xterm")


@pytest.fixture
def model_without_template(tmp_path) -> str:
    golden = ROOT / "tests" / "golden"
    model = shutil.copytree(golden / "models" / "qwen3_untied_6bit", tmp_path / "model")
    shutil.copy(golden / "text" / "tokenizers" / "byte_level.json", model / "tokenizer.json")
    return str(model)


def chat_piped(text: str | bytes, env: dict[str, str], *flags: str) -> subprocess.CompletedProcess:
    data = text.encode() if isinstance(text, str) else text
    return subprocess.run([program(), *FLAGS, *flags], input=data, capture_output=True, timeout=120, env=env)


def answers(text: str | bytes, env: dict[str, str], *flags: str) -> str:
    result = chat_piped(text, env, *flags)
    assert result.returncode == 0, result.stderr
    return result.stdout.decode()


# --- In a pipe: standard output has the answers and nothing else ---------------------------------------------------


def test_each_line_is_answered(env):
    one, two = answers("What is the capital of France?\nAnd of Italy?\n", env).splitlines()[:2]
    assert one and two
    assert answers("What is the capital of France?\n", env).splitlines()[0] == one


def test_clear_begins_again(env):
    first = answers("What is the capital of France?\n", env)
    assert answers("Hello!\n/clear\nWhat is the capital of France?\n", env).endswith(first)


def test_undo_forgets_the_last_turn(env):
    first = answers("What is the capital of France?\n", env)
    assert answers("Hello!\n/undo\nWhat is the capital of France?\n", env).endswith(first)


def test_retry_answers_the_same_question_again(env):
    first = answers("What is the capital of France?\n", env)
    assert answers("What is the capital of France?\n/retry\n", env) == first * 2


def test_system_begins_again_with_another_message(env):
    by_flag = answers("Who are you?\n", env, "--system", "You are a pirate.")
    assert answers("Hello!\n/system You are a pirate.\nWho are you?\n", env).endswith(by_flag)
    assert answers("Who are you?\n", env) != by_flag


def test_a_message_may_have_several_lines(env):
    expected = answers('"""\none\ntwo\n"""\n', env)
    assert answers("one\\\ntwo\n", env) == expected
    assert answers('"""\none\ntwo\n', env) == expected  # the end of the input ends it too
    assert len(expected.splitlines()) >= 1


def test_commands_speak_on_standard_error(env):
    result = chat_piped("/help\n/undo\n/retry\n/claer\n   \n/exit\nnever asked\n", env)
    assert (result.returncode, result.stdout) == (0, b"")
    said = result.stderr.decode()
    assert "/system TEXT     begin again with this system message" in said
    assert "There is nothing to undo.\n" in said
    assert "There is no question to answer again.\n" in said
    assert "There is no command '/claer'; did you mean /clear?\n" in said


def test_a_question_that_fails_is_reported_and_forgotten(env):
    result = chat_piped("word " * 100 + "\nHi\n", env, "--context-length", "64")
    assert result.returncode == 1
    assert b"redpoll: this model's context is 64 tokens, but the prompt has " in result.stderr
    assert result.stdout.strip()  # the second one was answered


def test_what_is_not_utf8_is_refused(env):
    result = chat_piped(b"a\xff\n", env)
    assert result.returncode == 1
    assert "redpoll: expected valid UTF-8, got 'a\ufffd'\n" in result.stderr.decode()


# --- At a terminal -------------------------------------------------------------------------------------------------


def terminal(env: dict[str, str], *flags: str) -> Terminal:
    chat = Terminal([program(), "chat", "--temperature", "0", *flags], env)
    chat.read_until("/help lists the commands.")
    chat.read_until(PROMPT)
    return chat


def ask(chat: Terminal, text: str) -> str:
    chat.type(text + "\r")
    chat.read_until(text)
    return chat.read_until("\n" + PROMPT)


def test_a_conversation_at_a_terminal(env):
    with terminal(env, "--max-tokens", "12") as chat:
        assert len(ask(chat, "What is the capital of France?").strip()) > 3
        assert "There is no command '/foo'" in ask(chat, "/foo")
        assert "begin again" in ask(chat, "/help")
        chat.press_ctrl("d")
        assert chat.wait() == 0


def test_ctrl_c_stops_an_answer_and_not_the_chat(env):
    with terminal(env, "--max-tokens", "4000") as chat:
        chat.type("Write a very long story about the sea.\r")
        chat.read_until("sea.")
        chat.read_more()
        chat.press_ctrl("c")
        assert "(stopped)" in chat.read_until("\n" + PROMPT, 10)
        chat.type("/exit\r")
        assert chat.wait() == 0


def test_ctrl_c_at_the_prompt_forgets_the_line(env):
    with terminal(env, "--max-tokens", "12") as chat:
        chat.type("/exi")
        chat.read_until("/exi")
        chat.press_ctrl("c")
        chat.read_until("^C")
        chat.read_until(PROMPT, 10)
        assert "There is no command '/foo'" in ask(chat, "/foo")
        chat.type('"""\r')
        chat.read_until(". ")
        chat.type("abandoned\r")
        chat.read_until(". ")
        chat.press_ctrl("c")
        chat.read_until("\n" + PROMPT, 10)
        chat.press_ctrl("c")
        chat.read_until("\n" + PROMPT, 10)
        chat.press_ctrl("d")
        assert chat.wait() == 0


def test_history_is_kept_for_the_next_time(env, tmp_path):
    with terminal(env) as chat:
        ask(chat, "/remembered")
        chat.press_ctrl("d")
        assert chat.wait() == 0
    file = tmp_path / "redpoll" / "chat_history"
    assert "/remembered" in file.read_text()
    assert file.stat().st_mode & 0o077 == 0
    with terminal(env) as chat:
        chat.press_ctrl("p")  # the line before
        chat.read_until("/remembered")
        chat.type("\r")
        assert "There is no command '/remembered'" in chat.read_until("\n" + PROMPT)


def test_characters_of_several_bytes_can_be_typed(env):
    with terminal(env) as chat:
        assert "There is no command '/öß日'" in ask(chat, "/öß日")


def test_a_model_without_a_chat_template_says_so(env, model_without_template):
    result = chat_piped("Hi\n", env, model_without_template)
    assert result.returncode == 1
    assert b"has no chat template, so it cannot chat; `redpoll generate --raw` continues a text" in result.stderr
