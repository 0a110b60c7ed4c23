"""Prompts that are kept on disk, as their user sees it: the bits of a cold answer in memory, on disk and after a
restart, around every edge; nothing of another model; and nothing spoilt by a server that is killed at any moment."""

import concurrent.futures
import contextlib
import random
import resource
import signal
import subprocess
import time

import httpx
import pytest
import safetensors.numpy
from golden_checkpoint import VOCABULARY, random_prompt, write_golden
from server_process import ServerProcess, clean_environment, program, run_program, wait_until

BLOCK = 32
RUN = 256  # tokens of a file
LEAST = 64  # tokens that are read from disk rather than computed
ANSWER = 8
LENGTHS = [BLOCK - 1, BLOCK, BLOCK + 1, 2 * BLOCK, LEAST + 1, RUN - 1, RUN, RUN + 1, 2 * RUN + 1]
# SmolLM2-135M: 30 layers of 3 heads of 64, keys and values; with codes, 2 halves for each head.
BLOCK_BYTES = {"off": BLOCK * 30 * 3 * 2 * 128, "8": BLOCK * 30 * 3 * 2 * 68, "4": BLOCK * 30 * 3 * 2 * 36}
STARTER_TOKENS = 40_000


@contextlib.contextmanager
def served(*flags: str, env: dict[str, str] | None = None, **popen: object):
    """A client of a server that has loaded its model, and the server."""
    with ServerProcess(*flags, env=env, **popen) as server, httpx.Client(base_url=server.url, timeout=120) as http:
        wait_until(lambda: http.get("/health").status_code == 200, 60, "the model is loaded")
        yield http, server


def ask(http: httpx.Client, prompt: list[int], max_tokens: int = ANSWER) -> tuple[dict, int]:
    """All that a user sees of an answer, and how many tokens were not computed for it."""
    body = {"prompt": prompt, "max_tokens": max_tokens, "temperature": 0, "logprobs": 3, "ignore_eos": True,
            "return_token_ids": True}  # fmt: skip
    answer = http.post("/v1/completions", json=body).raise_for_status().json()
    assert answer["usage"]["completion_tokens"] == max_tokens
    [choice] = answer["choices"]
    return choice, answer["usage"]["prompt_tokens_details"]["cached_tokens"]


def disk(http: httpx.Client) -> dict:
    return http.get("/stats").json()["ssd_cache"]


def stop(server: ServerProcess) -> None:
    server.terminate()
    assert server.wait() == 0


def cached_on_disk(prompt: list[int]) -> int:
    """All but the last token, which is computed for what comes after it."""
    return len(prompt) - 1 if len(prompt) - 1 >= LEAST else 0


@pytest.mark.parametrize("scheme", ["off", "8", "4"])
def test_answers_keep_their_bits_in_memory_on_disk_and_over_a_restart(scheme, tmp_path):  # 54
    # Memory for the largest two; asking for all in turn, nobody finds its own there.
    memory = 2 * 17 * BLOCK_BYTES[scheme] / 2**30
    flags = ["--context-length", "1024", "--kv-quant", scheme, "--prompt-cache", f"{memory:.9f}", "--ssd-cache",
             str(tmp_path)]  # fmt: skip
    prompts = [random_prompt(length, 1000 + length, STARTER_TOKENS) for length in LENGTHS]
    # An entry has the prompt and all of the answer but its last token: whole runs, and a file for the rest.
    num_files = sum(-(-(length + ANSWER - 1) // RUN) for length in LENGTHS)
    with served(*flags) as (http, server):
        cold = []
        for prompt in prompts:
            answer, cached = ask(http, prompt)
            assert cached == 0
            cold.append(answer)
            assert ask(http, prompt) == (answer, len(prompt) - 1)
        wait_until(lambda: disk(http)["spills"] == num_files, 10, "all files are written")
        assert disk(http)["restores"] == 0
        for prompt, answer in zip(prompts, cold, strict=True):
            assert ask(http, prompt) == (answer, cached_on_disk(prompt)), len(prompt)
        assert http.get("/stats").json()["prompt_cache"]["bytes"] <= memory * 2**30
        assert (disk(http)["failed"], disk(http)["dropped"]) == (0, 0)
        stop(server)
    with served(*flags, "--ssd-cache-verify") as (http, server):
        assert disk(http)["entries"] == num_files
        for prompt, answer in zip(prompts, cold, strict=True):
            assert ask(http, prompt) == (answer, cached_on_disk(prompt)), len(prompt)
            assert ask(http, prompt) == (answer, len(prompt) - 1)
        assert (disk(http)["failed"], disk(http)["spills"]) == (0, 0)


# States, convolutions, windows, and windows with sinks: what can be resumed only where somebody has stopped.
@pytest.mark.parametrize("name", ["qwen3_5_4bit", "lfm2_4bit", "gemma3_text_windows_4bit", "gpt_oss_mxfp4"])
def test_second_turns_go_on_from_the_first_in_memory_and_after_a_restart(name, tmp_path):  # 55
    model = write_golden(tmp_path / "model", name)
    flags = ["--model", str(model), "--ssd-cache", str(tmp_path / "cache")]
    prompts = [random_prompt(length, 1 + i, VOCABULARY) for i, length in enumerate(LENGTHS)]
    new = random_prompt(5, 1, VOCABULARY)
    with served("--model", str(model), "--prompt-cache", "0") as (http, _):
        cold = [ask(http, prompt)[0] for prompt in prompts]
        longer = [prompt + answer["token_ids"] + new for prompt, answer in zip(prompts, cold, strict=True)]
        cold_longer = [ask(http, prompt)[0] for prompt in longer]
    with served(*flags) as (http, server):
        for prompt, answer, second, second_answer in zip(prompts, cold, longer, cold_longer, strict=True):
            assert ask(http, prompt) == (answer, 0)
            assert ask(http, prompt) == (answer, len(prompt) - 1)
            assert ask(http, second) == (second_answer, len(prompt) + ANSWER - 1)
        stop(server)
    with served(*flags) as (http, _):
        for prompt, answer, second, second_answer in zip(prompts, cold, longer, cold_longer, strict=True):
            assert ask(http, prompt) == (answer, cached_on_disk(prompt)), len(prompt)
            got, cached = ask(http, second)
            assert got == second_answer
            assert cached >= len(prompt) + ANSWER - 1
        assert disk(http)["failed"] == 0


def change_one_weight(model) -> None:
    path = model / "model.safetensors"
    weights = safetensors.numpy.load_file(path)
    weights["model.norm.weight"][0] *= 1.5
    safetensors.numpy.save_file(weights, path)


def test_nothing_is_taken_from_another_model(tmp_path):  # 58
    model = write_golden(tmp_path / "model", "qwen2_f16")
    prompt = random_prompt(300, 1, VOCABULARY)
    flags = ["--model", str(model)]
    cached = [*flags, "--ssd-cache", str(tmp_path / "cache")]
    seen = []

    def expect_a_miss(*more: str, env: dict[str, str] | None = None) -> None:
        with served(*flags, *more, env=env) as (http, _):
            cold, _ = ask(http, prompt)
        assert cold not in seen  # what would be taken for it would be seen
        seen.append(cold)
        for num_cached in [0, len(prompt) - 1]:
            with served(*cached, *more, env=env) as (http, server):
                assert ask(http, prompt) == (cold, num_cached)
                stop(server)

    expect_a_miss()
    expect_a_miss("--kv-quant", "8")
    expect_a_miss("--kv-quant", "4")
    change_one_weight(model)
    expect_a_miss()


def test_damage_is_found_by_who_verifies_and_the_rest_is_used(tmp_path):
    flags = ["--context-length", "1024", "--ssd-cache", str(tmp_path)]
    prompt = random_prompt(3 * RUN, 1, STARTER_TOKENS)
    with served(*flags) as (http, server):
        cold, _ = ask(http, prompt)
        stop(server)
    [second] = [path for path in tmp_path.rglob("run-*.kv") if path.read_bytes()[28:32] == RUN.to_bytes(4, "little")]
    data = bytearray(second.read_bytes())
    data[-1] ^= 0x40  # the exponent of a value of the last layer
    second.write_bytes(data)
    with served(*flags, "--ssd-cache-verify") as (http, server):
        assert ask(http, prompt) == (cold, RUN)
        assert disk(http)["failed"] == 1
        stop(server)
    with served(*flags, "--ssd-cache-verify") as (http, _):  # has been written anew
        assert ask(http, prompt) == (cold, len(prompt) - 1)


def test_no_more_is_read_than_a_smaller_prompt_cache_keeps(tmp_path):
    flags = ["--context-length", "1024", "--ssd-cache", str(tmp_path)]
    prompt = random_prompt(2 * RUN + 1, 1, STARTER_TOKENS)
    with served(*flags) as (http, server):
        cold, _ = ask(http, prompt)
        stop(server)
    smaller = (RUN // BLOCK + 1) * BLOCK_BYTES["off"] / 2**30
    with served(*flags, "--prompt-cache", f"{smaller:.9f}") as (http, _):
        assert ask(http, prompt) == (cold, RUN)
        assert (disk(http)["restores"], disk(http)["given_up"]) == (1, 0)


def test_a_killed_server_leaves_nothing_that_changes_an_answer(tmp_path):
    flags = ["--context-length", "1024", "--prompt-cache", "0.03", "--ssd-cache", str(tmp_path), "--ssd-cache-max",
             "0.06"]  # fmt: skip
    beginning = random_prompt(RUN + 40, 1, STARTER_TOKENS)
    prompts = [beginning + random_prompt(20 * i, 2 + i, STARTER_TOKENS) for i in range(1, 9)]
    with served("--context-length", "1024", "--prompt-cache", "0") as (http, _):
        cold = [ask(http, prompt)[0] for prompt in prompts]
    moments = random.Random(1)
    found = 0
    for life in range(20):
        with served(*flags) as (http, server):
            i = life % len(prompts)
            answer, cached = ask(http, prompts[i])
            assert answer == cold[i], f"after {life} kills"
            found += cached > 0
            if life % 4 == 0:  # most lives end before a file is complete
                wait_until(lambda: disk(http)["entries"] > 0, 20, "a file")  # noqa: B023
            with concurrent.futures.ThreadPoolExecutor(len(prompts)) as pool:
                others = [pool.submit(ask, http, prompt) for prompt in prompts]
                time.sleep(moments.uniform(0, 0.8))
                server.terminate(signal.SIGKILL)
                assert server.wait() == -signal.SIGKILL
                for other, want in zip(others, cold, strict=True):
                    with contextlib.suppress(httpx.TransportError):  # was not answered before the end
                        assert other.result()[0] == want
    assert found > 0, "no life found anything of the one before"
    with served(*flags, "--ssd-cache-verify") as (http, _):
        assert [ask(http, prompt)[0] for prompt in prompts] == cold
        assert disk(http)["failed"] == 0
    leftovers = [path.name for path in tmp_path.rglob("*.tmp")]
    assert leftovers == []


def test_a_prompt_of_one_token_more_than_the_context_is_refused_with_both_numbers():  # 62
    with served("--context-length", "256") as (http, _):
        for length, why in [(257, ""), (256, ", which leaves no room for an answer")]:
            response = http.post("/v1/completions", json={"prompt": [1000] * length, "max_tokens": 1})
            assert response.status_code == 400
            error = response.json()["error"]
            assert error["code"] == "context_length_exceeded"
            assert error["message"].startswith(f"this model's context is 256 tokens, but the prompt has {length}{why};")
        assert ask(http, [1000] * 255, max_tokens=1)[0]["finish_reason"] == "length"


@pytest.mark.parametrize(
    "case, why",
    [
        ("a file", "cannot open {}: Not a directory; name a folder"),
        ("below a file", "cannot make {}: Not a directory; name a folder"),
        ("open to others", "{}: expected a folder that only its owner can write into"),
    ],
)
def test_a_folder_that_cannot_be_used_is_an_error_before_the_model_loads(case, why, tmp_path):
    directory = tmp_path / "cache"
    if case in ("a file", "below a file"):
        directory.write_text("mine")
    if case == "below a file":
        directory /= "below"
    if case == "open to others":
        directory.mkdir()
        directory.chmod(0o775)
    done = subprocess.run(
        [program(), "serve", "--port", "0", "--ssd-cache", str(directory)], capture_output=True, text=True, timeout=30,
        env=clean_environment(), stdin=subprocess.DEVNULL,
    )  # fmt: skip
    assert done.returncode == 1
    [line] = done.stderr.splitlines()
    assert line.startswith("redpoll: --ssd-cache: " + why.format(directory))


def full_disk() -> None:
    """Writing to any file fails from here on, as on a full disk."""
    resource.setrlimit(resource.RLIMIT_FSIZE, (0, resource.RLIM_INFINITY))


def test_a_full_disk_stops_no_server_and_what_is_there_is_read(tmp_path):
    flags = ["--ssd-cache", str(tmp_path / "cache")]
    prompts = [random_prompt(RUN + 1, seed, STARTER_TOKENS) for seed in (1, 2)]
    with served(*flags) as (http, server):
        cold = ask(http, prompts[0])[0]
        stop(server)
    # Python ignores the signal of a file that is too large, and so does what it starts.
    with served(*flags, preexec_fn=full_disk, restore_signals=False) as (http, server):
        assert ask(http, prompts[0]) == (cold, RUN)
        ask(http, prompts[1])
        wait_until(lambda: disk(http)["failed"] > 0, 10, "a file cannot be written")
        ask(http, prompts[1])
        stop(server)
    for said in ("the disk of --ssd-cache is full", "cannot write to the disk cache"):
        assert sum(said in line for line in server.log) == 1


def test_a_limit_below_what_a_file_takes_is_an_error(tmp_path):
    run_bytes = 4096 + RUN // BLOCK * BLOCK_BYTES["off"]  # a header and the blocks of a run
    for max_bytes, expected in [(run_bytes - 1024, 1), (run_bytes + 1024, 0)]:
        flags = ["--ssd-cache", str(tmp_path), "--ssd-cache-max", f"{max_bytes / 2**30:.9f}"]
        if expected == 0:
            with served(*flags) as (http, _):
                prompt = random_prompt(RUN, 1, STARTER_TOKENS)
                ask(http, prompt, max_tokens=1)
                wait_until(lambda: disk(http)["spills"] == 1, 10, "the file is written")
            continue
        done = run_program("serve", "--port", "0", *flags)
        assert done.returncode == 1
        assert "--ssd-cache-max allows " in done.stderr and f"{RUN} tokens take {run_bytes}" in done.stderr


def test_a_folder_in_place_of_a_file_is_said_and_does_not_disturb(tmp_path):
    flags = ["--ssd-cache", str(tmp_path)]
    prompts = [random_prompt(RUN, seed, STARTER_TOKENS) for seed in (1, 2)]
    with served(*flags) as (http, server):
        cold = ask(http, prompts[0])[0]
        stop(server)
    files = list(tmp_path.rglob("run-*.kv"))
    for path in files:
        path.unlink()
        path.mkdir()
    with served(*flags) as (http, server):
        assert ask(http, prompts[0]) == (cold, 0)
        wait_until(lambda: disk(http)["failed"] == 1, 10, "the file is found not to be one")
        ask(http, prompts[1])
        wait_until(lambda: disk(http)["spills"] == 2, 10, "other files are written")
        assert ask(http, prompts[0]) == (cold, RUN - 1)
        stop(server)
    said = [line for line in server.log if "a folder is in the place of a file of the disk cache" in line]
    assert len(said) == 1 and str(files[0]) in said[0]


def bytes_in(directory) -> int:
    return sum(path.stat().st_size for path in directory.rglob("*.kv"))


def test_servers_that_share_a_folder_keep_its_limit_and_find_each_others_files(tmp_path):
    file_bytes = 4096 + RUN // BLOCK * BLOCK_BYTES["off"]
    max_bytes = 4 * file_bytes
    flags = ["--context-length", "1024", "--ssd-cache", str(tmp_path), "--ssd-cache-max", f"{max_bytes / 2**30:.9f}"]
    with served(*flags) as (one, _), served(*flags) as (other, _), served(*flags, "--kv-quant", "8") as (third, _):
        servers = (one, other, third)
        for i in range(6):
            for number, http in enumerate(servers):
                ask(http, random_prompt(RUN, 100 * (number + 1) + i, STARTER_TOKENS), max_tokens=1)
                assert bytes_in(tmp_path) <= max_bytes + len(servers) * file_bytes
        wait_until(lambda: all(disk(http)["bytes"] == bytes_in(tmp_path) <= max_bytes for http in servers), 30,
                   "each knows what is there, and it is no more than there may be")  # fmt: skip
        prompt = random_prompt(RUN, 1, STARTER_TOKENS)
        cold, _ = ask(one, prompt, max_tokens=1)

        def is_on_disk_for_the_other() -> bool:
            found = other.post("/v1/cache/explain", json={"prompt": prompt}).raise_for_status().json()
            return (found["disk_tokens"], found["memory_tokens"]) == (RUN - 1, 0)

        wait_until(is_on_disk_for_the_other, 30, "one has written it and the other has seen that")
        assert ask(other, prompt, max_tokens=1) == (cold, RUN - 1)
        assert disk(other)["restores"] == 1


def test_a_folder_that_is_cleared_meanwhile_is_written_anew(tmp_path):
    flags = ["--context-length", "1024", "--ssd-cache", str(tmp_path)]
    prompt = random_prompt(2 * RUN + 1, 1, STARTER_TOKENS)
    with served(*flags) as (http, server):
        cold, _ = ask(http, prompt)
        wait_until(lambda: disk(http)["spills"] == 3, 10, "all files are written")
        for moment in ("meanwhile", "at last"):
            assert run_program("cache", "clear", str(tmp_path)).returncode == 0
            assert bytes_in(tmp_path) == 0
            if moment == "meanwhile":
                wait_until(lambda: disk(http)["bytes"] == 0, 30, "the server has seen that nothing is left")
                found = http.post("/v1/cache/explain", json={"prompt": prompt}).raise_for_status().json()
                assert (found["disk_tokens"], found["memory_tokens"]) == (0, len(prompt) - 1)
        stop(server)
    assert bytes_in(tmp_path) > 0
    with served(*flags) as (http, _):
        assert ask(http, prompt) == (cold, len(prompt) - 1)


def test_what_was_computed_with_other_options_is_explained(tmp_path):
    flags = ["--context-length", "1024", "--ssd-cache", str(tmp_path)]
    prompt = random_prompt(RUN + 40, 1, STARTER_TOKENS)

    def explained(http: httpx.Client) -> dict:
        return http.post("/v1/cache/explain", json={"prompt": prompt}).raise_for_status().json()

    with served(*flags) as (http, server):
        assert (explained(http)["stops_because"], explained(http)["other_namespace"]) == ("nothing_cached", None)
        ask(http, prompt)
        stop(server)
    [folder] = tmp_path.iterdir()
    with served(*flags, "--kv-quant", "8") as (http, _):
        found = explained(http)
        assert (found["stops_because"], found["cached_tokens"]) == ("other_namespace", 0)
        assert found["other_namespace"] == folder.name != found["namespace"]
        assert "--kv-quant" in found["message"]
        assert ask(http, prompt)[1] == 0
        found = explained(http)
        assert (found["stops_because"], found["other_namespace"]) == ("end_of_prompt", None)


def test_what_does_not_fit_in_memory_is_refused_with_numbers_and_what_does_not_fit_now_waits():  # 60
    small = ["--max-batch", "4", "--step-tokens", "64", "--prompt-cache", "0", "--memory-budget", "0.14"]
    with served(*small) as (http, _):
        memory = http.get("/stats").json()["memory"]
        kv = http.get("/stats").json()["kv"]
        context = memory["max_context"]
        assert memory["weights_bytes"] + memory["kv_bytes"] + memory["step_bytes"] <= memory["budget_bytes"]
        assert context == kv["blocks_total"] * BLOCK < 8192, "memory, not the model, is the limit"
        refused = http.post("/v1/completions", json={"prompt": [1000] * (context + 1), "max_tokens": 1})
        assert refused.status_code == 400
        limit = f"the context that fits into this server's memory budget is {context} tokens"
        assert f"{limit}, but the prompt has {context + 1}; shorten it or raise --memory-budget" in refused.text
        # Each takes most of the blocks: they can only follow one another.
        prompts = [random_prompt(context * 2 // 3, 1000 + i, STARTER_TOKENS) for i in range(3)]
        with concurrent.futures.ThreadPoolExecutor(len(prompts)) as pool:
            together = list(pool.map(lambda prompt: ask(http, prompt, 2)[0], prompts))
        assert together == [ask(http, prompt, 2)[0] for prompt in prompts]
        assert http.get("/stats").json()["kv"]["blocks_used"] == 0
