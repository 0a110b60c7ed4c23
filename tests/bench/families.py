#!/usr/bin/env python3
"""Redpoll against llama.cpp, family by family: random weights in the shape of a real model of each (peer_shapes.py),
the same numbers on both sides, the same number of threads, in turns. Prints a line for each: tokens a second of
decoding and of a prompt of 512, and the ratio, ours over theirs.

Weights are written once and kept, some 35 GB for all families unless --discard is given.

usage: .deps/venv/bin/python tests/bench/families.py [flags]     --help lists them
"""

import argparse
import json
import pathlib
import shutil
import subprocess
import sys

import peer_build
import peer_models
import peer_report
import peer_rows
import peer_shapes
import peer_sides
import peer_vocabulary
import peers

SHARED = "llama"  # is a model of peers.py too
ROWS = [row for row in peer_rows.ROWS if row.key in ("decode", "prefill-512")]


def parse_arguments() -> argparse.Namespace:
    known = list(peer_shapes.SHAPES)
    parser = argparse.ArgumentParser(description="Redpoll against llama.cpp on this machine, for each model family.")
    parser.add_argument("--families", type=peers.choices(known), default=known, metavar="FAMILY,...",
                        help="of " + ", ".join(known))  # fmt: skip
    parser.add_argument("--format", choices=peers.FORMATS, default="Q4_1", help="of the weights that llama.cpp gets")
    parser.add_argument(
        "--discard",
        action="store_true",
        help="delete the weights of a family when it is measured; not llama's, which peers.py uses too",
    )
    peers.add_side_arguments(parser)
    return parser.parse_args()


def folder_of(arguments: argparse.Namespace, family: str) -> pathlib.Path:
    """Another number of layers is another model."""
    layers = peer_shapes.SHAPES[family].config["num_hidden_layers"]
    return arguments.folder / "models" / ("1b" if family == SHARED else f"{family}-{layers}")


def peer_of(arguments: argparse.Namespace) -> str:
    return f"llama.cpp {arguments.format}"


def make_sides(arguments: argparse.Namespace, programs: pathlib.Path, family: str) -> list:
    folder = folder_of(arguments, family)
    folder.parent.mkdir(parents=True, exist_ok=True)
    vocabulary = peer_vocabulary.read_vocabulary(peers.STARTER)
    model = peer_models.make_model(folder, peer_shapes.SHAPES[family].config, vocabulary)
    theirs = peer_models.gguf_path(model)
    if arguments.format == "Q4_0":
        theirs = peer_build.requantize(programs, theirs, folder.with_name(f"{folder.name}.Q4_0.gguf"), "q4_0")
    environment = peers.plain_environment()
    return [peers.make_redpoll(arguments, model),
            peer_sides.LlamaCpp(programs, theirs, arguments.threads, peer_of(arguments), environment)]  # fmt: skip


def discard(arguments: argparse.Namespace, family: str) -> None:
    folder = folder_of(arguments, family)
    shutil.rmtree(folder, ignore_errors=True)
    for file in folder.parent.glob(f"{folder.name}.*"):
        file.unlink()


def measure(arguments: argparse.Namespace, programs: pathlib.Path, family: str) -> peer_report.Figures:
    try:
        sides = make_sides(arguments, programs, family)
        return peers.measure(arguments, family, [row.key for row in ROWS], sides)
    finally:
        if arguments.discard and family != SHARED:
            discard(arguments, family)


def main() -> int:
    arguments = parse_arguments()
    conditions = peers.describe(arguments)
    programs = arguments.llama or peer_build.build(arguments.folder, arguments.isa)
    peer = peer_of(arguments)
    measured, failures = {}, {}
    for family in arguments.families:
        try:
            measured[family] = measure(arguments, programs, family)
        except (RuntimeError, subprocess.CalledProcessError) as error:
            failures[family] = str(error)
            print(f"{family}: {error}", file=sys.stderr, flush=True)
    if arguments.json:
        models = {family: peer_report.as_json(ROWS, figures, [peer]) for family, figures in measured.items()}
        print(json.dumps({"conditions": conditions, "models": models, "failures": failures}, indent=1))
    else:
        lines = [([family, peer_shapes.SHAPES[family].title], figures) for family, figures in measured.items()]
        print("\n".join(f"{name}: {value}" for name, value in conditions.items()))
        print("\n" + peer_report.table_of_models(ROWS, lines, peer))
    return 1 if failures else 0


if __name__ == "__main__":
    sys.exit(main())
