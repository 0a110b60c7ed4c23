"""Starting, refusing to start, stopping, keys and origins: each with what the person at the terminal sees."""

import json
import os
import signal
import socket
import threading

import httpx
import pytest

from concurrency_test import CHAT, open_stream_and_read_first_delta, reset
from server_process import ServerProcess, run_program
from streams import events

EXIT_FAILED, EXIT_USAGE = 1, 2


@pytest.fixture(scope="module")
def key_file(tmp_path_factory) -> str:
    path = tmp_path_factory.mktemp("keys") / "keys"
    path.write_text("# clients\nright-key\nother-key\n")
    path.chmod(0o600)
    return str(path)


@pytest.fixture(scope="module")
def guarded(key_file):
    with ServerProcess("--api-key-file", key_file, "--alias", "guarded", "--request-timeout", "2") as process:
        yield process


def test_the_log_says_where_it_listens_and_how_to_call_it(server):
    log = "".join(server.log)
    assert server.url in log
    assert f"curl {server.url}/v1/chat/completions" in log


def test_keys_are_required_where_there_is_a_key_file(guarded):  # 85
    body = {"messages": [{"role": "user", "content": "Hi"}], "max_tokens": 1}
    for headers in [{}, {"authorization": "Bearer wrong-key"}, {"authorization": "right-key"}]:
        response = httpx.post(guarded.url + CHAT, json=body, headers=headers)
        assert response.status_code == 401
        assert response.json()["error"]["code"] == "invalid_api_key"
        assert response.headers["www-authenticate"] == "Bearer"
    for headers in [{"authorization": "Bearer right-key"}, {"x-api-key": "other-key"}]:
        assert httpx.post(guarded.url + CHAT, json=body, headers=headers, timeout=60).status_code == 200
    assert httpx.get(guarded.url + "/health").status_code == 200
    assert httpx.get(guarded.url + "/stats").status_code == 401
    assert "right-key" not in "".join(guarded.log)


def test_alias_is_the_served_id(guarded):
    headers = {"authorization": "Bearer right-key"}
    models = httpx.get(guarded.url + "/v1/models", headers=headers).json()["data"]
    assert [entry["id"] for entry in models] == ["guarded"]


def test_request_timeout_ends_a_whole_answer_and_a_stream(guarded):  # 43
    body = {"messages": [{"role": "user", "content": "Tell a story."}], "max_tokens": 4000, "ignore_eos": True}
    headers = {"authorization": "Bearer right-key"}
    response = httpx.post(guarded.url + CHAT, json=body, headers=headers, timeout=60)
    assert response.status_code == 504
    assert response.json()["error"]["code"] == "timeout"
    response = httpx.post(guarded.url + CHAT, json=body | {"stream": True}, headers=headers, timeout=60)
    assert response.status_code == 200
    data = events(response)
    assert data[-1] == "[DONE]"
    assert json.loads(data[-2])["error"]["code"] == "timeout"
    assert json.loads(data[0])["choices"][0]["delta"]["role"] == "assistant"


def test_foreign_web_pages_are_refused(server):  # 88
    evil = {"origin": "https://evil.example", "access-control-request-method": "POST"}
    preflight = httpx.options(server.url + CHAT, headers=evil)
    assert "access-control-allow-origin" not in preflight.headers
    response = httpx.post(server.url + CHAT, json={}, headers={"origin": "https://evil.example"})
    assert response.status_code == 403
    assert "access-control-allow-origin" not in response.headers
    assert httpx.get(server.url + "/stats", headers={"host": "evil.example"}).status_code == 403


def test_port_in_use_is_said_and_fails():
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))
        taken.listen()
        port = taken.getsockname()[1]
        result = run_program("serve", "--port", str(port))
    assert result.returncode == EXIT_FAILED
    assert str(port) in result.stderr
    assert "in use" in result.stderr


def test_a_memory_budget_above_what_there_is_is_warned_of():
    with ServerProcess("--memory-budget", "100000") as server:
        assert any("the memory budget of 102400000.0 MiB is more than the " in line for line in server.log)


def test_other_machines_are_not_served_without_keys():  # 85
    result = run_program("serve", "--host", "0.0.0.0", "--port", "0")
    assert result.returncode in (EXIT_FAILED, EXIT_USAGE)
    assert "refusing to serve other machines on '0.0.0.0' without keys" in result.stderr


def test_an_open_server_is_warned_about():  # 85
    with ServerProcess("--host", "0.0.0.0", "--insecure") as server:
        warnings = [line for line in server.log if "INSECURE" in line]
        port = server.address[1]
    assert len(warnings) == 1
    assert f"0.0.0.0:{port} serves every machine that can reach it, without asking for a key" in warnings[0]
    assert "warn" in warnings[0].lower()


def test_missing_model_lists_near_matches_and_serves_nothing_else(tmp_path):
    snapshot = tmp_path / "models--org--tiny-llama" / "snapshots" / "1"
    snapshot.mkdir(parents=True)
    (snapshot / "config.json").write_text("{}")
    result = run_program("serve", "tiny-lama", "--port", "0", env={"HF_HUB_CACHE": str(tmp_path)})
    assert result.returncode == EXIT_FAILED
    assert "no model 'tiny-lama'" in result.stderr
    assert "near matches: org/tiny-llama" in result.stderr


@pytest.mark.parametrize("content", [b"", b"GGUF", b"GGUF\x03\x00\x00\x00" + b"\xff" * 64], ids=["empty", "short", "huge counts"])
def test_broken_model_is_an_error_and_not_a_crash(tmp_path, content):
    path = tmp_path / "broken.gguf"
    path.write_bytes(content)
    result = run_program("serve", str(path), "--port", "0")
    assert result.returncode == EXIT_FAILED
    assert "broken.gguf" in result.stderr


def test_sigterm_lets_a_running_stream_finish():
    with ServerProcess() as server:
        body = {"messages": [{"role": "user", "content": "Tell a story."}], "max_tokens": 40, "ignore_eos": True,
                "stream": True}
        lines = []
        first = threading.Event()

        def read() -> None:
            with httpx.stream("POST", server.url + CHAT, json=body, timeout=60) as response:
                for line in response.iter_lines():
                    lines.append(line)
                    if line.startswith("data: "):
                        first.set()

        reader = threading.Thread(target=read)
        reader.start()
        assert first.wait(60)
        server.terminate(signal.SIGTERM)
        reader.join(60)
        assert lines and [line for line in lines if line][-1] == "data: [DONE]"
        assert '"finish_reason":"length"' in "".join(lines)
        assert server.wait() == 0
        with pytest.raises(httpx.ConnectError):
            httpx.get(server.url + "/health")


def test_a_stream_is_cut_off_after_the_grace():
    with ServerProcess("--shutdown-grace", "0.5") as server:
        connection = open_stream_and_read_first_delta(server.address)  # of an answer that takes much longer
        try:
            server.terminate(signal.SIGTERM)
            assert server.wait(15) == 0
            assert "cut off after a grace of 500 ms" in "".join(server.log)
        finally:
            reset(connection)


def test_a_second_signal_ends_it_at_once():
    with ServerProcess() as server:
        connection = open_stream_and_read_first_delta(server.address)
        try:
            server.terminate(signal.SIGINT)
            with pytest.raises(Exception):
                server.process.wait(1)  # still finishing the stream
            server.terminate(signal.SIGINT)
            assert server.wait(5) == -signal.SIGINT
        finally:
            reset(connection)


def test_unreadable_key_file_stops_the_start(tmp_path):
    result = run_program("serve", "--api-key-file", str(tmp_path / "missing"), "--port", "0")
    assert result.returncode in (EXIT_FAILED, EXIT_USAGE)
    assert os.fspath(tmp_path / "missing") in result.stderr
