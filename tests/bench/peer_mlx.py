"""Times mlx-lm, which must be installed for the Python that runs this: prints {"tokens_per_s": RATE}.

usage: peer_mlx.py MODEL THREADS PREFILL DECODE
  a prompt of PREFILL random tokens until the first token of its answer; or, where PREFILL is 0, the DECODE tokens that
  follow the first one after a prompt of one

Computes in float32: on a CPU, MLX is some thirty times slower in float16. It has no option for threads, so the process
keeps to THREADS cores.
"""

import itertools
import json
import os
import random
import sys
import time

import mlx.core as mx
from mlx_lm import load
from mlx_lm.generate import generate_step


def seconds_of_tokens(model, prompt_tokens: int, vocabulary: int, answer_tokens: int) -> list[float]:
    """When each token of the answer came, from the start on."""
    prompt = mx.array([random.randrange(vocabulary) for _ in range(prompt_tokens)])
    mx.eval(prompt)
    started_at = time.perf_counter()
    steps = generate_step(prompt, model, max_tokens=answer_tokens)
    return [time.perf_counter() - started_at for _ in itertools.islice(steps, answer_tokens)]


def main() -> None:
    path, threads, prefill, decode = sys.argv[1], *map(int, sys.argv[2:])
    if hasattr(os, "sched_setaffinity"):
        os.sched_setaffinity(0, sorted(os.sched_getaffinity(0))[:threads])
    random.seed(1)
    model, tokenizer = load(path)
    model.set_dtype(mx.float32)
    vocabulary = tokenizer.vocab_size
    seconds_of_tokens(model, 1, vocabulary, 2)  # what the first call costs more
    if prefill:
        [end] = seconds_of_tokens(model, prefill, vocabulary, 1)
        rate = prefill / end
    else:
        first, *_, last = seconds_of_tokens(model, 1, vocabulary, decode + 1)
        rate = decode / (last - first)
    print(json.dumps({"tokens_per_s": rate}))


if __name__ == "__main__":
    main()
