"""The server's own routes: status, metrics, tokenizing, templates and the page."""

import re
import time

import prometheus_client.parser
import pytest


def metrics(http) -> dict[str, float]:
    """Samples by name and labels."""
    response = http.get("/metrics")
    assert response.headers["content-type"].startswith("text/plain; version=0.0.4")
    families = prometheus_client.parser.text_string_to_metric_families(response.text)
    return {
        sample.name + "".join(f"{{{key}={value}}}" for key, value in sorted(sample.labels.items())): sample.value
        for family in families
        for sample in family.samples
    }


def test_health(http):
    response = http.get("/health")
    assert response.status_code == 200
    assert response.json() == {"status": "ok"}


def test_stats_have_every_section(http, model):
    stats = http.get("/stats").json()
    assert stats["server"]["model"] == model
    assert stats["server"]["version"]
    assert abs(stats["server"]["started_at"] + stats["server"]["uptime_s"] - time.time()) < 5
    assert stats["kv"]["blocks_total"] > 0
    assert stats["memory"]["weights_bytes"] > 50_000_000
    assert stats["memory"]["rss_bytes"] > stats["memory"]["weights_bytes"] / 2
    assert stats["memory"]["max_context"] >= 2048
    assert isinstance(stats["requests"], list)


def test_metrics_count_a_request_once(http):
    before = metrics(http)
    body = {"messages": [{"role": "user", "content": "Hi"}], "max_tokens": 5, "ignore_eos": True}
    usage = http.post("/v1/chat/completions", json=body).json()["usage"]
    name = "redpoll_requests_total{endpoint=chat}{status=200}"
    deadline = time.monotonic() + 5
    while (after := metrics(http)).get(name, 0) == before.get(name, 0) and time.monotonic() < deadline:
        time.sleep(0.01)
    assert after[name] == before.get(name, 0) + 1
    assert after["redpoll_completion_tokens_total"] - before["redpoll_completion_tokens_total"] == 5
    assert after["redpoll_prompt_tokens_total"] - before["redpoll_prompt_tokens_total"] == usage["prompt_tokens"]
    for histogram in ["queue", "time_to_first_token", "request"]:
        count = f"redpoll_{histogram}_seconds_count"
        assert after[count] == before[count] + 1
    gaps = "redpoll_inter_token_seconds_count"
    assert after[gaps] == before[gaps] + 4


@pytest.mark.parametrize("text", ["Hello, world!", "naïve Ω 日本語 🙂‍↔️", "  indented\n\tcode\r\n", "<|im_start|>user", ""])
def test_tokenize_and_detokenize_are_inverse(http, text):
    tokens = http.post("/tokenize", json={"content": text}).json()["tokens"]
    assert http.post("/detokenize", json={"tokens": tokens}).json()["content"] == text


def test_pieces_add_up_to_the_text(http):
    text = "Grüße 🙂 aus Zürich"
    pieces = http.post("/tokenize", json={"content": text, "with_pieces": True}).json()["tokens"]
    joined = b"".join(bytes(p["piece"]) if isinstance(p["piece"], list) else p["piece"].encode() for p in pieces)
    assert joined.decode() == text


def test_apply_template_is_what_chat_sees(http):
    messages = [{"role": "user", "content": "What is the capital of France?"}]
    prompt = http.post("/apply-template", json={"messages": messages}).json()["prompt"]
    assert prompt.endswith("<|im_start|>user\nWhat is the capital of France?<|im_end|>\n<|im_start|>assistant\n")
    ids = http.post("/tokenize", json={"content": prompt}).json()["tokens"]
    body = {"messages": messages, "max_tokens": 1, "return_token_ids": True}
    assert http.post("/v1/chat/completions", json=body).json()["prompt_token_ids"] == ids


def test_page_is_self_contained_and_under_a_strict_policy(http, model):
    response = http.get("/")
    assert response.headers["content-type"] == "text/html; charset=utf-8"
    policy = response.headers["content-security-policy"]
    nonce = re.search(r"style-src 'nonce-([0-9a-f]{32})'", policy).group(1)
    assert "default-src 'none'" in policy
    assert f'<style nonce="{nonce}">' in response.text
    assert model in response.text
    assert "<script" not in response.text
    assert "src=" not in response.text
    assert http.get("/").headers["content-security-policy"] != policy


def test_unknown_routes_and_methods(http):
    response = http.get("/nowhere")
    assert response.status_code == 404
    assert response.json()["error"]["type"] == "invalid_request_error"
    response = http.get("/v1/chat/completions")
    assert response.status_code == 405
    assert "POST" in response.headers["allow"]
