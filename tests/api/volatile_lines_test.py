"""Prompts that differ in a line that changes with every request only, and what the prompt cache finds of them."""

import httpx
import pytest
from server_process import ServerProcess

PROMPT = "You are an agent. The quick brown fox jumps over the lazy dog near the river bank while it rains. " * 10
HEADER = "x-anthropic-billing-header: cc_version=2.1.37.abc; cc_entrypoint=cli; cch={};"


def client_of(*flags: str):
    with ServerProcess("--context-length", "4096", *flags) as server:
        with httpx.Client(base_url=server.url, timeout=120) as client:
            yield client


@pytest.fixture(scope="module")
def client():
    yield from client_of("--volatile-line", "run [0-9]+", "--volatile-line", "at .*")


@pytest.fixture(scope="module")
def keeping():
    yield from client_of("--no-known-volatile-lines")


def ask(client, system, user="Hi") -> dict:
    """The usage of an answer."""
    messages = [{"role": "system", "content": system}, {"role": "user", "content": user}]
    body = {"messages": messages, "max_tokens": 1, "temperature": 0}
    return client.post("/v1/chat/completions", json=body).raise_for_status().json()["usage"]


def found_all(usage: dict) -> bool:
    return usage["prompt_tokens_details"]["cached_tokens"] == usage["prompt_tokens"] - 1


def rendered(client, messages) -> str:
    return client.post("/apply-template", json={"messages": messages}).raise_for_status().json()["prompt"]


def counted(client) -> int:
    lines = client.get("/metrics").text.splitlines()
    return int(next(line for line in lines if line.startswith("redpoll_volatile_lines_total ")).split()[1])


@pytest.mark.parametrize("first, second", [(HEADER.format("9f2d1"), HEADER.format("01c36")),
                                           ("run 1\r\nat noon", "run 2\nat night")], ids=["known", "given"])
def test_requests_that_differ_in_volatile_lines_share_a_prompt(client, first, second):
    before = counted(client)
    system = f"{first[:4]} {PROMPT}"  # another prompt in each case
    cold = ask(client, f"{first}\n{system}")
    warm = ask(client, f"{second}\n{system}")
    assert not found_all(cold)
    assert found_all(warm)
    assert cold["prompt_tokens"] == warm["prompt_tokens"]
    assert found_all(ask(client, [{"type": "text", "text": second}, {"type": "text", "text": system}]))
    assert found_all(ask(client, system))
    assert counted(client) - before == 3 * len(first.splitlines())


def test_a_first_line_that_nobody_knows_is_part_of_the_prompt(client):
    usages = [ask(client, f"{line}\n{PROMPT}") for line in ["nonce: 17", "Nonce: 18", "run 1, slowly"]]
    assert not any(found_all(usage) for usage in usages)
    assert all(usage["prompt_tokens_details"]["cached_tokens"] < 32 for usage in usages)


def test_the_known_line_stays_if_that_is_wanted(keeping):
    ask(keeping, f"{HEADER.format('9f2d1')}\n{PROMPT}")
    usage = ask(keeping, f"{HEADER.format('01c36')}\n{PROMPT}")
    assert usage["prompt_tokens_details"]["cached_tokens"] < usage["prompt_tokens"] / 2
    assert HEADER.format("9f2d1") in rendered(keeping, [{"role": "system", "content": HEADER.format("9f2d1")}])
    assert counted(keeping) == 0


def test_what_a_template_and_a_tokenizer_show_is_what_the_model_sees(client):
    plain = [{"role": "system", "content": "Be brief."}, {"role": "user", "content": "run 2"}]
    marked = [{"role": "system", "content": f"run 1\n{HEADER.format('9f2d1')}\nBe brief."}, plain[1]]
    assert rendered(client, marked) == rendered(client, plain)
    tokens = [client.post("/tokenize", json={"messages": messages}).json()["tokens"] for messages in [marked, plain]]
    assert tokens[0] == tokens[1]


def test_a_system_message_of_such_lines_alone_is_as_if_it_had_not_been_sent(client):
    user = {"role": "user", "content": "Hi"}
    assert rendered(client, [{"role": "system", "content": HEADER.format("9f2d1")}, user]) == rendered(client, [user])
    empty = rendered(client, [{"role": "system", "content": ""}, user])
    assert empty != rendered(client, [user]), "the starter model's template has a system prompt of its own"


def test_other_messages_keep_such_lines(client):
    user = rendered(client, [{"role": "system", "content": "Be brief."}, {"role": "user", "content": "run 1\nHi"}])
    assert "run 1\nHi" in user


def test_patterns_may_stand_in_the_settings_file(tmp_path):
    config = tmp_path / "redpoll.toml"
    config.write_text("volatile-line = ['run [0-9]+', 'at .*']\nno-known-volatile-lines = true\n")
    for client in client_of("--config", str(config)):
        text = f"run 1\nat noon\n{HEADER.format('9f2d1')}\nBe brief."
        prompt = rendered(client, [{"role": "system", "content": text}])
        assert HEADER.format("9f2d1") in prompt
        assert "run 1" not in prompt and "at noon" not in prompt


def test_what_is_explained_is_what_is_computed(client):
    first, second = (HEADER.format(value) + "\nExplained. " + PROMPT for value in ("9f2d1", "01c36"))
    usage = ask(client, first)
    messages = [{"role": "system", "content": second}, {"role": "user", "content": "Hi"}]
    found = client.post("/v1/cache/explain", json={"messages": messages}).raise_for_status().json()
    assert found["prompt_tokens"] == usage["prompt_tokens"]
    assert (found["cached_tokens"], found["stops_because"]) == (usage["prompt_tokens"] - 1, "end_of_prompt")
