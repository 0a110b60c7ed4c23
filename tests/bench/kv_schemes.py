"""What ways to pack keys and values cost: each is played through in the gate's float64 reference, so that nothing else
rounds, and held against the reference as it is. The figures are those of docs/decisions/0018.

usage: kv_schemes.py [--schemes NAME,NAME] [--window N] [--every N] [--build FOLDER]
(pip: numpy gguf; build the target redpoll)

A scheme is BITS-GROUP-TYPE-RULE: 8-64-f16-cover, say. TYPE is that of scales and biases: f16, bf16 or f32. RULE: `cover`
rounds the bias down and the scale up, and finds codes for what they have become, so that no element lies beyond the
last code; `edge` is MLX's: the edge that is further from zero and zero itself are exact, codes are found before scale
and bias are rounded to the nearest.
"""

import argparse
import pathlib

import numpy as np
from gate import ROOT, read_windows
from gate_measures import Comparison, Expected
from gate_reference import Reference

SCHEMES = [
    f"{bits}-{group}-{kind}-{rule}"
    for bits in [8, 4]
    for group, kind, rule in [
        (64, "f16", "cover"),
        (64, "bf16", "cover"),
        (64, "f32", "cover"),
        (32, "f16", "cover"),
        (64, "f16", "edge"),
        (64, "bf16", "edge"),
    ]
]


def to_bfloat16(x):
    bits = x.astype(np.float32).view(np.uint32)
    return ((bits + 0x7FFF + (bits >> 16 & 1)) & 0xFFFF0000).view(np.float32)


def nearest(x, kind):
    return {"f16": lambda: x.astype(np.float16), "bf16": lambda: to_bfloat16(x), "f32": lambda: x.astype(np.float32)}[kind]()


def step(x, kind, direction):
    """The next number of the type towards an infinity."""
    if kind != "bf16":
        return np.nextafter(x, np.asarray(direction, x.dtype))
    bits = x.view(np.uint32)
    away = np.where((x > 0) == (direction > 0), bits + 0x10000, bits - 0x10000)
    return away.astype(np.uint32).view(np.float32)


def rounded(x, kind, direction):
    """To the next number of the type in a direction: up for an infinity, down for a negative one."""
    to = nearest(x, kind)
    beyond = to.astype(np.float64) < x if direction > 0 else to.astype(np.float64) > x
    return np.where(beyond, step(to, kind, direction), to).astype(np.float64)


def cover(groups, highest, kind):
    bias = rounded(groups.min(axis=-1, keepdims=True), kind, -np.inf)
    scale = rounded((groups.max(axis=-1, keepdims=True) - bias) / highest, kind, np.inf)
    codes = np.rint((groups - bias) / np.where(scale > 0, scale, 1))
    return np.clip(codes, 0, highest) * scale + bias


def edge(groups, highest, kind):
    least, most = groups.min(axis=-1, keepdims=True), groups.max(axis=-1, keepdims=True)
    is_low = np.abs(least) > np.abs(most)
    scale = np.maximum((most - least) / highest, 1e-7) * np.where(is_low, 1, -1)
    far = np.where(is_low, least, most)
    code_of_zero = np.rint(far / scale)
    scale = np.where(code_of_zero != 0, far / np.where(code_of_zero != 0, code_of_zero, 1), scale)
    bias = np.where(code_of_zero != 0, far, 0)
    codes = np.clip(np.rint((groups - bias) / scale), 0, highest)
    return codes * nearest(scale, kind).astype(np.float64) + nearest(bias, kind).astype(np.float64)


class PackingReference(Reference):
    """The reference with packed keys and values; shares the weights of another."""

    def __init__(self, plain, scheme):
        self.__dict__ |= plain.__dict__
        bits, group, self.kind, rule = scheme.split("-")
        self.highest = 2 ** int(bits) - 1
        self.group = int(group)
        self.rule = {"cover": cover, "edge": edge}[rule]

    def stored(self, x):
        groups = x.reshape(*x.shape[:-1], -1, self.group)
        return self.rule(groups, self.highest, self.kind).reshape(x.shape)


def bytes_per_head(scheme, head_dim=64):
    bits, group, kind, _ = scheme.split("-")
    return head_dim * int(bits) // 8 + 2 * head_dim // int(group) * (4 if kind == "f32" else 2)


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--build", type=pathlib.Path, default=ROOT / "build" / "release", help="what was built")
    parser.add_argument("--schemes", default=",".join(SCHEMES), help="(default: %(default)s)")
    parser.add_argument("--window", type=int, default=512, help="tokens (default: 512)")
    parser.add_argument("--every", type=int, default=8, help="take every N-th window only (default: 8)")
    arguments = parser.parse_args()
    arguments.model = next((ROOT / ".deps" / "starter").rglob("*.gguf"))
    windows = [ids for group in read_windows(arguments).values() for ids in group]
    plain = Reference(arguments.model)
    schemes = {name: PackingReference(plain, name) for name in arguments.schemes.split(",")}
    comparisons = {name: Comparison() for name in schemes}
    for ids in windows:
        expected = Expected(ids, plain.logits(ids))
        for name, scheme in schemes.items():
            comparisons[name].add(expected, scheme.logits(ids))
    print(f"{sum(map(len, windows))} tokens in windows of {arguments.window}, {arguments.model.name}")
    print("| scheme | bytes of a head | mean KL | p99 KL | greedy agreement |\n| --- | --- | --- | --- | --- |")
    for name, comparison in comparisons.items():
        row = comparison.figures()
        print(f"| {name} | {bytes_per_head(name)} | {row['mean_kl']:.3g} | {row['p99_kl']:.3g} | {row['agreement']:.2%} |")


if __name__ == "__main__":
    main()
