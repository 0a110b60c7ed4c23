"""The numerics gate: how far Redpoll's logits, and llama.cpp's, are from a float64 forward pass of the starter model.

usage: gate.py [--candidates NAME,NAME] [--window N] [--every N] [--threads N] [--step-tokens N] [--json FILE]
(pip: numpy gguf, and llama-cpp-python built from source for llama.cpp; build the targets gate_logits and redpoll)

All candidates get the same windows of token ids, from the texts below, and every token of a window counts. For each
token the Kullback-Leibler divergence from the reference to the candidate is taken in nats. "mlx-lm's ids" are eight
greedy continuations of 64 tokens each that mlx-lm wrote in float32 (tests/golden/models/starter_greedy.json): a
candidate that finds all 512 likeliest would have written the same texts. The reference must find them all, or nothing
is measured. Each Redpoll candidate is held against llama.cpp with its defaults: the gate is passed by a mean divergence
that is not higher, a greedy agreement that is not lower, and all of mlx-lm's ids. A candidate that runs what Redpoll
runs by default (activations in int16, in float32 by the portable loops; keys and values in float16) must pass, or the exit
status is 1.
"""

import argparse
import hashlib
import json
import pathlib
import platform
import subprocess
import sys

from bench_arguments import positive
from gate_candidates import LlamaCpp, Redpoll
from gate_measures import Comparison, Expected, num_continued, passes, windows_of
from gate_reference import Reference

ROOT = pathlib.Path(__file__).resolve().parents[2]
TEXTS = {
    "English": [
        "tests/bench/text/english.txt",
        "tests/bench/text/chat.txt",
        "ARCHITECTURE.md",
        "CONTRIBUTING.md",
        "docs/decisions/0001-mlx-as-a-pinned-wheel.md",
        "docs/decisions/0002-errors-as-values.md",
    ],
    "code": ["src/engine/scheduler.cpp", "rust/src/abi.rs", "scripts/setup"],
    "other languages": ["tests/bench/text/latin_script.txt", "tests/bench/text/other_scripts.txt"],
}
REDPOLL = {  # activations, keys and values, instructions
    f"redpoll-{form}-{cpu}": (*kinds, cpu)
    for form, kinds in {
        "float32": ("float32", "f16"),
        "float32-f32-kv": ("float32", "f32"),
        "int16": ("int16", "f16"),
        "int16-q8-kv": ("int16", "q8"),
        "int16-q4-kv": ("int16", "q4"),
        "int8": ("int8", "f16"),
    }.items()
    for cpu in ["portable", "avx2", "avxvnni", "avx512"]
}
DEFAULTS = [("int16", "f16", cpu) for cpu in ["avx2", "avxvnni", "avx512"]] + [("float32", "f16", "portable")]
MUST_PASS = [name for name, kinds in REDPOLL.items() if kinds in DEFAULTS]
BAR = "llama.cpp"
LLAMA_CPP = {BAR: False, "llama.cpp-f32-kv": True}  # whether keys and values stay float32
CANDIDATES = [*REDPOLL, *LLAMA_CPP]
# Portable loops are a hundred times slower: they are for processors that have nothing better.
IS_X86 = platform.machine() in ("x86_64", "AMD64")
DEFAULT_CANDIDATES = [
    name for name in CANDIDATES if not name.endswith("f32-kv") and name.endswith("portable") <= (not IS_X86)
]
ALL = "all"


def read_arguments():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--build", type=pathlib.Path, default=ROOT / "build" / "release", help="what was built")
    parser.add_argument(
        "--candidates",
        default=",".join(DEFAULT_CANDIDATES),
        help=f"of {', '.join(CANDIDATES)} (default: %(default)s)",
    )
    parser.add_argument("--window", type=positive, default=512, help="tokens (default: 512)")
    parser.add_argument("--every", type=positive, default=1, help="take every N-th window only, for a quick look")
    parser.add_argument("--step-tokens", type=positive, default=512, help="tokens that Redpoll computes at once")
    parser.add_argument("--threads", type=positive, default=2, help="of each candidate (default: 2)")
    parser.add_argument("--json", type=pathlib.Path, help="also write the figures to this file")
    arguments = parser.parse_args()
    arguments.model = next((ROOT / ".deps" / "starter").rglob("*.gguf"))
    arguments.candidates = arguments.candidates.split(",")
    unknown = [name for name in arguments.candidates if name not in CANDIDATES]
    if unknown:
        parser.error(f"expected candidates of {', '.join(CANDIDATES)}; got {', '.join(unknown)}")
    return arguments


def tokenize(arguments, path):
    command = [arguments.build / "bin" / "redpoll", "tokenize", "--model", arguments.model]
    with open(ROOT / path, "rb") as text:
        printed = subprocess.run(command, stdin=text, stdout=subprocess.PIPE, check=True).stdout
    return [int(id) for id in printed.split()]


def read_windows(arguments):
    """{group: windows}; the texts of a group follow one another."""
    windows = {}
    for group, paths in TEXTS.items():
        ids = [id for path in paths for id in tokenize(arguments, path)]
        windows[group] = windows_of(ids, arguments.window)[:: arguments.every]
    return windows


def start_redpoll(arguments, name):
    """Nothing, if this machine does not have the instructions."""
    activations, kv, cpu = REDPOLL[name]
    command = [arguments.build / "tests" / "bench" / "gate_logits", "--model", arguments.model]
    command += ["--activations", activations, "--threads", str(arguments.threads)]
    command += ["--kv-quant", kv[1:]] if kv in ("q8", "q4") else ["--kv", kv]
    candidate = Redpoll(command + ["--step-tokens", str(arguments.step_tokens)], cpu)
    if f"-{cpu}" in candidate.kernel_set:
        return candidate
    candidate.close()
    return None


def start_candidates(arguments):
    candidates = {}
    for name in arguments.candidates:
        if name in LLAMA_CPP:
            candidates[name] = LlamaCpp(arguments.model, arguments.window, arguments.threads, LLAMA_CPP[name])
        elif candidate := start_redpoll(arguments, name):
            candidates[name] = candidate
        else:
            print(f"{name}: not on this machine")
    return candidates


def count_continued(model):
    """How many of mlx-lm's ids a reference or candidate finds, and how many there are."""
    cases = json.loads((ROOT / "tests" / "golden" / "models" / "starter_greedy.json").read_text())
    found = total = 0
    for case in cases:
        prompt, continuation = case["prompt_token_ids"], case["token_ids"]
        found += num_continued(prompt, continuation, model.logits(prompt + continuation))
        total += len(continuation)
    return found, total


def measure(reference, candidates, windows):
    """{candidate: {group: Comparison}}, with the reference itself among the candidates and all groups together."""
    groups = [*windows, ALL]
    comparisons = {name: {group: Comparison() for group in groups} for name in ["reference", *candidates]}
    num_windows, num_done = sum(map(len, windows.values())), 0
    for group, cuts in windows.items():
        for ids in cuts:
            expected = Expected(ids, reference.logits(ids))
            for name, of_groups in comparisons.items():
                logits = expected.logits if name == "reference" else candidates[name].logits(ids)
                of_groups[group].add(expected, logits)
                of_groups[ALL].add(expected, logits)
            num_done += 1
            print(f"\r{num_done} of {num_windows} windows", end="", file=sys.stderr, flush=True)
    print(file=sys.stderr)
    return comparisons


def print_conditions(arguments, windows, candidates):
    cuts = [cut for group in windows.values() for cut in group]
    fingerprint = hashlib.sha256(repr(cuts).encode()).hexdigest()[:16]
    counts = ", ".join(f"{sum(map(len, group))} {name}" for name, group in windows.items())
    print(f"machine   {platform.machine()}, {arguments.threads} threads")
    print(f"model     {arguments.model.name}")
    print(f"tokens    {sum(map(len, cuts))}: {counts}; windows of {arguments.window}; ids {fingerprint}")
    if BAR in candidates:
        print(f"llama.cpp of llama-cpp-python {candidates[BAR].version}")


def print_tables(figures, continued):
    for group in [ALL, *TEXTS]:
        print(f"\n{group}\n| | mean KL | p99 KL | max KL | greedy agreement | perplexity | mlx-lm's ids |")
        print("| --- | --- | --- | --- | --- | --- | --- |")
        for name, of_groups in figures.items():
            row = of_groups[group]
            print(
                f"| {name} | {row['mean_kl']:.3g} | {row['p99_kl']:.3g} | {row['max_kl']:.3g} | "
                f"{row['agreement']:.3%} | {row['perplexity']:.5f} | {continued[name][0]} of {continued[name][1]} |"
            )


def print_verdicts(figures, continued):
    """Returns the candidates that must pass and do not."""
    print()
    if BAR not in figures:
        print(f"no verdict: {BAR} is the bar and was not measured")
        return []
    if not any(name in figures for name in MUST_PASS):
        return [f"one of {', '.join(MUST_PASS)}"]
    failed = []
    for name in figures:
        if name in REDPOLL:
            passed = passes(figures[name][ALL], continued[name], figures[BAR][ALL])
            print(f"{name}: {'passes' if passed else 'FAILS'} the gate")
            if name in MUST_PASS and not passed:
                failed.append(name)
    return failed


def main():
    arguments = read_arguments()
    windows = read_windows(arguments)
    reference = Reference(arguments.model)
    found, total = count_continued(reference)
    if found != total:
        sys.exit(f"gate: the reference finds {found} of mlx-lm's {total} ids, so it is not this model's")
    candidates = start_candidates(arguments)
    print_conditions(arguments, windows, candidates)
    continued = {"reference": (found, total)}
    continued |= {name: count_continued(candidate) for name, candidate in candidates.items()}
    comparisons = measure(reference, candidates, windows)
    figures = {
        name: {group: comparison.figures() for group, comparison in of_groups.items()}
        for name, of_groups in comparisons.items()
    }
    for candidate in candidates.values():
        candidate.close()
    print_tables(figures, continued)
    failed = print_verdicts(figures, continued)
    if arguments.json:
        arguments.json.write_text(json.dumps({"figures": figures, "continued": continued}, indent=1) + "\n")
    if failed:
        sys.exit(f"gate: {', '.join(failed)} must pass and does not")


if __name__ == "__main__":
    main()
