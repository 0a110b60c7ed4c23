"""The command as a person or a script uses it: what it prints where, and how it exits."""

import json
import os
import pathlib
import signal
import subprocess
import threading

import pytest

from server_process import ROOT, ServerProcess, clean_environment, program, run_program

EXIT_FINE, EXIT_FAILED, EXIT_USAGE, EXIT_INTERRUPTED = 0, 1, 2, 130
VERBS = ["serve", "generate", "chat", "tokenize", "models", "doctor", "fit", "version"]
SHORT = ["--max-tokens", "8", "--temperature", "0"]


def usage_error(result: subprocess.CompletedProcess) -> str:
    """The message of a refused command line; nothing may have been printed or loaded."""
    assert result.returncode == EXIT_USAGE, result.stderr
    assert result.stdout == ""
    first, hint = result.stderr.splitlines()
    assert hint.startswith("`redpoll ") and hint.endswith("--help` lists what there is.")
    return first.removeprefix("redpoll: ")


def failure(result: subprocess.CompletedProcess) -> str:
    """The last line of what was said about a failure."""
    assert result.returncode == EXIT_FAILED, result.stderr
    assert result.stdout == ""
    return result.stderr.splitlines()[-1].removeprefix("redpoll: ")


# --- Help, versions, wrong usage ----------------------------------------------------------------------------------


@pytest.mark.parametrize("verb", VERBS)
def test_every_verb_explains_itself_on_standard_output(verb):
    result = run_program(verb, "--help")
    assert result.returncode == EXIT_FINE
    assert result.stderr == ""
    assert f"usage: redpoll {verb} [" in result.stdout
    assert all(len(line) <= 100 for line in result.stdout.splitlines())
    assert run_program("help", verb).stdout == result.stdout


def test_help_groups_flags_and_shows_defaults_once():
    text = run_program("serve", "--help").stdout
    for heading in ["Model", "Network", "Engine", "Logging, on standard error"]:
        assert f"\n{heading}\n" in text
    assert "  --max-batch N              Sequences computed in one step (8)\n" in text
    assert "  --port N                   Port to listen on; 0 takes any free one (8080)\n" in text
    assert text.count("REDPOLL_") == 1


def test_program_help_lists_the_verbs():
    text = run_program("--help").stdout
    assert all(f"\n  {verb} " in text for verb in VERBS)


def test_families_are_listed_with_what_they_were_checked_against():
    result = run_program("models", "--json")
    assert result.returncode == 0, result.stderr
    families = {row["model_type"]: row for row in json.loads(result.stdout)["families"]}
    assert len(families) >= 20
    assert families["llama"]["real_model"].startswith("SmolLM2-135M")
    assert families["gemma4_text"]["oracle"] == "mlx-lm" and families["gemma4_text"]["real_model"] is None
    assert "gemma4_text" in run_program("models").stdout


def test_versions_are_printed_without_loading_a_model():
    result = run_program("version", "--json", env={"REDPOLL_MODEL": "/nonexistent"})
    assert result.returncode == EXIT_FINE
    assert result.stderr == ""
    versions = json.loads(result.stdout)
    assert {"redpoll", "mlx", "tokenizers", "minijinja", "boost", "compiler"} <= versions.keys()
    assert run_program("--version").stdout.splitlines()[0] == f"redpoll {versions['redpoll']}"


@pytest.mark.parametrize(
    "arguments, message",
    [
        (["serv"], "there is no command 'serv'; did you mean serve?"),
        (["frobnicate"], "there is no command 'frobnicate'"),
        (["serve", "--prt", "1"], "there is no flag '--prt'; did you mean --port?"),
        (["generate", "--temp=0"], "there is no flag '--temp'; did you mean --temperature?"),
        (["serve", "--port"], "--port needs a value: --port N"),
        (["--port"], "--port needs a value: --port N"),
        (["serve", "--port", "abc"], "--port: expected a whole number from 0 to 65535, got 'abc'"),
        (["serve", "--port="], "--port: expected a whole number from 0 to 65535, got nothing"),
        (["serve", "--port", "65536"], "--port: expected a whole number from 0 to 65535, got 65536"),
        (["serve", "--default-temperature", "nan"], "--default-temperature: expected a number from 0 to 2, got 'nan'"),
        (["generate", "--temperature", "999"], "--temperature: expected a number from 0 to 2, got 999"),
        (["generate", "--temperature", "inf"], "--temperature: expected a number from 0 to 2, got 'inf'"),
        (["generate", "--top-p", ""], "--top-p: expected a number from 0 to 1, got nothing"),
        (["generate", "--seed", "1.5"], "--seed: expected a whole number from 0 to 9223372036854775807, got 1.5"),
        (["serve", "a", "b"], "unexpected argument 'b'"),
        (["serve", "a", "--model", "b"], "MODEL is given twice: as 'a' and as --model 'b'"),
        (["serve", ""], "MODEL: expected some text, got nothing"),
        (["serve", "--log-level", "loud"],
         "--log-level: expected one of trace, debug, info, warn, error, off; got 'loud'"),
        (["generate", "--activations", "int4"], "--activations: expected one of float32, int16, int8; got 'int4'"),
        (["serve", "--request-timeout", "0"], "--request-timeout: expected a number from 0.001 to 1000000, got 0"),
        (["generate"], "generate needs a --prompt or --prompt-token-ids"),
        (["generate", "--prompt", "a", "--prompt-token-ids", "1"],
         "--prompt and --prompt-token-ids exclude each other"),
        (["generate", "--raw", "--prompt", "a", "--system", "b"],
         "--system needs the chat template, which --raw and --prompt-token-ids leave out"),
        (["generate", "--prompt-token-ids", "1,,2"],
         "--prompt-token-ids: expected token ids with commas between, as in 1,2,3; got '1,,2'"),
        (["generate", "--prompt", "a", "--stop="], "--stop: expected some text, got nothing"),
        (["generate", "--prompt", "a"] + ["--stop=x"] * 17, "--stop: expected at most 16 of them"),
        (["serve", "--volatile-line", "nonce=("],
         "--volatile-line: expected a regular expression, got 'nonce=(': unclosed group (at byte 6)"),
        (["serve", "--volatile-line="], "--volatile-line: expected some text, got nothing"),
        (["serve", "--ssd-cache", "d", "--exact"],
         "--ssd-cache keeps what the prompt cache gives up, and with --exact there is none; leave one of them out"),
        (["serve", "--exact", "--prompt-cache", "1"],
         "--prompt-cache keeps prompts, and --exact computes each from its beginning; leave one of them out"),
        (["serve", "--ssd-cache", "d", "--prompt-cache", "0"],
         "--ssd-cache keeps what the prompt cache gives up, and with --prompt-cache 0 there is none; "
         "leave one of them out"),
        (["serve", "--ssd-cache-max", "32"],
         "--ssd-cache-max bounds the files in a folder that --ssd-cache must name"),
        (["serve", "--ssd-cache-verify"],
         "--ssd-cache-verify checks the files in a folder that --ssd-cache must name"),
        *((verb + ["--exact", "--activations", "float32"],
           "--activations says what our own kernels for CPUs compute in, and --exact computes in the checkpoint's "
           "types; leave one of them out")
          for verb in [["serve"], ["generate", "--prompt", "a"], ["chat"], ["bench"], ["bench", "serve"]]),
        (["version", "extra"], "unexpected argument 'extra'"),
        (["doctor", "--jsn"], "there is no flag '--jsn'; did you mean --json?"),
    ],
    ids=lambda value: " ".join(value)[:40] if isinstance(value, list) else "",
)
def test_wrong_usage_says_what_was_expected(arguments, message):
    assert usage_error(run_program(*arguments)) == message


def test_a_prompt_that_is_not_utf8_is_refused():
    result = run_program("generate", "--prompt", os.fsdecode(b"a\xff"))
    assert usage_error(result) == "--prompt: expected valid UTF-8, got 'a\ufffd'"


def test_a_folder_in_place_of_a_verb_gets_advice(tmp_path):
    assert usage_error(run_program(str(tmp_path))) == (
        f"there is no command '{tmp_path}'; to serve that model: redpoll serve {tmp_path}")


# --- Environment and settings file --------------------------------------------------------------------------------

REFUSED = "refusing to serve other machines on "  # a start that fails before anything is loaded


def test_a_bad_variable_is_named():
    result = run_program("serve", env={"REDPOLL_PORT": "abc"})
    assert usage_error(result) == "REDPOLL_PORT: expected a whole number from 0 to 65535, got 'abc'"


def test_flags_win_over_variables_and_variables_over_the_file(tmp_path):
    config = tmp_path / "redpoll.toml"
    config.write_text('host = "10.0.0.1"\n')
    flags = ["serve", "--config", str(config)]
    assert f"{REFUSED}'10.0.0.1'" in failure(run_program(*flags))
    assert f"{REFUSED}'10.0.0.2'" in failure(run_program(*flags, env={"REDPOLL_HOST": "10.0.0.2"}))
    assert f"{REFUSED}'10.0.0.3'" in failure(run_program(*flags, "--host=10.0.0.3", env={"REDPOLL_HOST": "10.0.0.2"}))
    assert f"{REFUSED}'10.0.0.1'" in failure(run_program(env={"REDPOLL_CONFIG": str(config)}))


@pytest.mark.parametrize(
    "content, message",
    [
        ("port = 1\nmax-bath = 3\n", "--config: {}:2: there is no setting 'max-bath'; did you mean max-batch?"),
        ('port = "1"\n', "--config: {}:1: port: expected a number, got a string"),
        ("port = 99999\n", "{}:1: port: expected a whole number from 0 to 65535, got 99999"),
        ("port 1\n", "--config: {}:1: "),
    ],
)
def test_mistakes_in_the_settings_file_are_shown_with_their_line(tmp_path, content, message):
    config = tmp_path / "redpoll.toml"
    config.write_text(content)
    assert usage_error(run_program("serve", "--config", str(config))).startswith(message.format(config))


def test_a_missing_settings_file_is_an_error(tmp_path):
    path = tmp_path / "none.toml"
    assert usage_error(run_program("serve", "--config", str(path))) == (
        f"--config: cannot open {path}: No such file or directory")
    assert usage_error(run_program("serve", env={"REDPOLL_CONFIG": str(path)})) == (
        f"REDPOLL_CONFIG: cannot open {path}: No such file or directory")


def test_the_settings_file_configures_a_server(tmp_path):
    config = tmp_path / "redpoll.toml"
    config.write_text('alias = "from-file"\nallow-host = ["one.example", "two.example"]\nno-web = true\n'
                      'log-format = "text"\ncontext-length = 512\n')
    with ServerProcess("--config", str(config)) as server:
        assert "from-file" in "".join(server.log)
        server.terminate(signal.SIGTERM)
        assert server.wait() == EXIT_FINE


# --- Models -------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("arguments", [["serve"], ["generate", "--prompt", "x"], ["chat"], ["tokenize", "x"]],
                         ids=lambda arguments: arguments[0])
def test_every_verb_finds_models_alike(tmp_path, arguments):
    (tmp_path / "models--org--tiny-llama").mkdir()
    env = {"HF_HUB_CACHE": str(tmp_path), "XDG_STATE_HOME": str(tmp_path), "REDPOLL_MODEL": "tiny-lama"}
    for result in [run_program(*arguments, env=env),
                   run_program(*arguments, "--model=tiny-lama", env=env | {"REDPOLL_MODEL": "else"})]:
        message = failure(result)
        assert message.startswith("no model 'tiny-lama'")
        assert message.endswith("near matches: org/tiny-llama")


def test_a_folder_without_a_model_is_an_error(tmp_path):
    assert failure(run_program("generate", str(tmp_path), "--prompt", "x")) == (
        f"folder '{tmp_path}' is not a model: it has neither config.json nor a .gguf file")


def test_a_truncated_model_is_an_error(tmp_path):
    whole = next((ROOT / ".deps" / "starter").rglob("*.gguf"))
    path = tmp_path / "cut.gguf"
    with whole.open("rb") as file:
        path.write_bytes(file.read(3_000_000))
    message = failure(run_program("generate", str(path), "--prompt", "x"))
    assert "cut.gguf" in message


# --- tokenize -----------------------------------------------------------------------------------------------------


def tokenize(*arguments: str, text: bytes = b"") -> subprocess.CompletedProcess:
    return subprocess.run([program(), "tokenize", *arguments], input=text, capture_output=True, timeout=60,
                          env=clean_environment())


def test_tokenize_reads_an_argument_or_standard_input():
    ids = b"28120 905\n"
    assert tokenize("hello world").stdout == ids
    assert tokenize(text=b"hello world").stdout == ids
    assert tokenize("--text=hello world").stdout == ids
    assert tokenize("").stdout == b"\n"
    assert tokenize("--", "--json").stdout == b"423 5518\n"
    assert tokenize("hello world").stderr == b""


def test_tokenize_prints_tokens_as_json():
    rows = json.loads(tokenize("--json", "hello world").stdout)
    assert rows == [{"id": 28120, "token": "hello"}, {"id": 905, "token": " world"}]


def test_tokenize_refuses_what_is_not_utf8():
    result = tokenize(text=b"ab\xff")
    assert (result.returncode, result.stdout) == (EXIT_FAILED, b"")
    assert result.stderr == b"redpoll: the text is not valid UTF-8 at byte 2\n"


# --- generate -----------------------------------------------------------------------------------------------------


def generate(*arguments: str) -> subprocess.CompletedProcess:
    result = run_program("generate", *arguments)
    assert result.returncode == EXIT_FINE, result.stderr
    return result


def generate_json(*arguments: str) -> dict:
    return json.loads(generate(*arguments, "--json").stdout)


def test_the_answer_is_all_there_is_on_standard_output():
    answer = generate_json("--prompt", "What is the capital of France?", *SHORT)
    result = generate("--prompt", "What is the capital of France?", *SHORT)
    assert result.stdout == answer["text"] + "\n"
    assert "loading" in result.stderr


def test_json_has_what_a_script_needs():
    answer = generate_json("--prompt", "What is the capital of France?", "--ignore-eos", *SHORT)
    assert list(answer) == ["text", "prompt_token_ids", "token_ids", "finish_reason", "usage", "timings"]
    assert answer["finish_reason"] == "length"
    assert len(answer["token_ids"]) == answer["usage"]["completion_tokens"] == 8
    assert len(answer["prompt_token_ids"]) == answer["usage"]["prompt_tokens"]
    assert answer["usage"]["total_tokens"] == answer["usage"]["prompt_tokens"] + 8
    assert answer["timings"]["ttft_ms"] > 0


def test_raw_text_and_its_token_ids_are_continued_alike():
    prompt = ["--prompt", "The capital of France is", *SHORT]
    raw = generate_json("--raw", *prompt)
    ids = ",".join(map(str, raw["prompt_token_ids"]))
    by_ids = generate_json("--prompt-token-ids", ids, *SHORT)
    assert by_ids["token_ids"] == raw["token_ids"]
    assert len(raw["prompt_token_ids"]) < len(generate_json(*prompt)["prompt_token_ids"])  # no template


def test_a_seed_repeats_and_another_differs():
    flags = ["--prompt", "Tell a story.", "--temperature", "1", "--max-tokens", "24"]
    first, again, other = (generate(*flags, "--seed", seed).stdout for seed in ["7", "7", "8"])
    assert first == again
    assert first != other


def test_a_stop_text_ends_the_answer_and_is_not_part_of_it():
    flags = ["--prompt", "What is the capital of France?", "--temperature", "0", "--max-tokens", "24"]
    whole = generate(*flags).stdout.rstrip("\n")
    assert " of " in whole
    answer = generate_json(*flags, "--stop", "never", "--stop", " of ")
    assert answer["text"] == whole[: whole.index(" of ")]
    assert answer["finish_reason"] == "stop"


def test_an_empty_message_is_answered_and_an_empty_text_is_not():
    assert generate("--prompt", "", *SHORT).stdout.strip()
    assert failure(run_program("generate", "--raw", "--prompt", "", *SHORT)) == (
        "expected a prompt of at least one token")


def test_a_system_message_changes_the_prompt():
    plain = generate_json("--prompt", "Hi", *SHORT)["prompt_token_ids"]
    assert generate_json("--prompt", "Hi", "--system", "Be brief.", *SHORT)["prompt_token_ids"] != plain


def test_ids_outside_the_vocabulary_are_refused():
    assert failure(run_program("generate", "--prompt-token-ids", "1,49152")) == (
        "--prompt-token-ids: expected ids from 0 to 49151, the model's vocabulary; got 49152")


def test_a_prompt_longer_than_the_context_gets_both_numbers():
    message = failure(run_program("generate", "--context-length", "16", "--prompt", "one two three " * 10))
    assert message.startswith("this model's context is 16 tokens, but the prompt has ")


def test_a_closed_pipe_ends_it():
    process = subprocess.Popen([program(), "generate", "--prompt", "Tell a story.", "--ignore-eos"],
                               stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, env=clean_environment())
    assert process.stdout.read(1)
    process.stdout.close()
    assert process.wait(30) in (-signal.SIGPIPE, EXIT_FAILED)


@pytest.mark.skipif(not os.path.exists("/dev/full"), reason="needs a device that is always full")
def test_a_full_disk_is_a_failure():
    with open("/dev/full", "w") as full:
        result = subprocess.run([program(), "version"], stdout=full, stderr=subprocess.PIPE, text=True, timeout=60)
    assert result.returncode == EXIT_FAILED
    assert result.stderr == "redpoll: cannot write to standard output\n"


@pytest.mark.parametrize("as_json", [False, True], ids=["text", "json"])
def test_ctrl_c_ends_an_answer_with_what_was_said(as_json):
    flags = ["--prompt", "Tell a story.", "--ignore-eos", "--temperature", "0"] + (["--json"] if as_json else [])
    process = subprocess.Popen([program(), "generate", *flags], stdout=subprocess.PIPE, stderr=subprocess.PIPE,
                               env=clean_environment())
    if as_json:
        for line in process.stderr:
            if line.startswith(b"ready"):
                break
        timer = threading.Timer(1, process.send_signal, [signal.SIGINT])
        timer.start()
        said = b""
    else:
        said = process.stdout.read(5)
        process.send_signal(signal.SIGINT)
    said += process.stdout.read()
    assert process.wait(20) == EXIT_INTERRUPTED
    assert said.endswith(b"\n")
    if as_json:
        answer = json.loads(said)
        assert answer["finish_reason"] == "interrupted"
        assert 0 < len(answer["token_ids"]) < 8000


def test_nothing_is_written_beside_the_answer(tmp_path):
    env = {"HOME": str(tmp_path), "XDG_STATE_HOME": str(tmp_path), "XDG_CACHE_HOME": str(tmp_path)}
    run_program("generate", "--prompt", "x", *SHORT, env=env)
    assert list(pathlib.Path(tmp_path).iterdir()) == []
