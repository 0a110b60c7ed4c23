"""What the numerics gate compares: Redpoll's kernels, through the program gate_logits, and llama.cpp."""

import os
import subprocess

import numpy as np


class Redpoll:
    """One kernel set. `kernel_set` is what really runs: a machine may lack the instructions asked for."""

    def __init__(self, command, cpu=""):
        environment = {**os.environ, "REDPOLL_CPU": cpu}
        self.process = subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, env=environment)
        vocabulary, _, self.kernel_set = self.process.stdout.readline().decode().strip().partition(" ")
        if not self.kernel_set:
            raise RuntimeError(f"{' '.join(map(str, command))} ended before it said what it runs")
        self.vocabulary = int(vocabulary)

    def logits(self, ids):
        self.process.stdin.write(" ".join(map(str, ids)).encode() + b"\n")
        self.process.stdin.flush()
        rows = np.empty((len(ids), self.vocabulary), dtype=np.float32)
        if self.process.stdout.readinto(rows.data.cast("B")) != rows.nbytes:
            raise RuntimeError("gate_logits ended in the middle of a window")
        return rows

    def close(self):
        self.process.stdin.close()
        self.process.stdout.close()
        return self.process.wait()


class LlamaCpp:
    """With its defaults, or with keys and values kept in float32 instead of float16."""

    def __init__(self, model, window, threads, float32_kv=False):
        try:
            import llama_cpp
        except ImportError:
            raise SystemExit("gate: no llama.cpp: install llama-cpp-python, or leave it out with --candidates")
        self.version = llama_cpp.__version__
        kv_type = llama_cpp.GGML_TYPE_F32 if float32_kv else None
        self.llama = llama_cpp.Llama(
            model_path=str(model),
            n_ctx=window,
            n_batch=window,
            n_threads=threads,
            n_threads_batch=threads,
            logits_all=True,
            type_k=kv_type,
            type_v=kv_type,
            verbose=False,
        )

    def logits(self, ids):
        self.llama.reset()
        self.llama.eval(ids)
        return self.llama.scores[: len(ids)]

    def close(self):
        self.llama.close()
