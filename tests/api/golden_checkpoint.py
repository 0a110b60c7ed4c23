"""The tiny checkpoints of tests/golden/models as folders that can be served, and prompts of exact lengths."""

import json
import pathlib
import random
import shutil

from server_process import ROOT

VOCABULARY = 94  # of the goldens' 96 tokens, those that a byte-level tokenizer can have as printable characters


def write_golden(folder: pathlib.Path, name: str, context: int = 1024) -> pathlib.Path:
    """A copy of the golden, with a tokenizer, which it lacks, and a context of so many tokens."""
    source = ROOT / "tests" / "golden" / "models" / name
    folder.mkdir(parents=True)
    shutil.copy(source / "model.safetensors", folder)
    config = json.loads((source / "config.json").read_text()) | {"max_position_embeddings": context}
    (folder / "config.json").write_text(json.dumps(config))
    byte_level = {"type": "ByteLevel", "add_prefix_space": False, "trim_offsets": True, "use_regex": False}
    vocabulary = {chr(ord("!") + token): token for token in range(VOCABULARY)}
    tokenizer = {
        "version": "1.0",
        "added_tokens": [],
        "normalizer": None,
        "pre_tokenizer": byte_level,
        "post_processor": None,
        "decoder": byte_level,
        "model": {"type": "BPE", "vocab": vocabulary, "merges": []},
    }
    (folder / "tokenizer.json").write_text(json.dumps(tokenizer))
    return folder


def random_prompt(length: int, first: int, num_tokens: int) -> list[int]:
    """Ids from 1 to below `num_tokens` after the first, the same whenever it is called."""
    ids = random.Random(f"{length} {first}").choices(range(1, num_tokens), k=length)
    return [first, *ids[1:]]
