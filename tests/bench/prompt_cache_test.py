"""The measuring itself: that each side is asked what the rows say, and that a miss is no figure."""

import argparse
import dataclasses
import os
import pathlib

import peers
import prompt_cache
import pytest

OURS = prompt_cache.Redpoll(pathlib.Path(os.environ["REDPOLL_PROGRAM"]), peers.STARTER, 1, peers.plain_environment())


def test_first_tokens_are_of_a_cold_a_warm_and_a_restored_prompt():
    values = prompt_cache.take_first_tokens(OURS, 200, turn=0)
    assert set(values) == {row.key for row in prompt_cache.FIRST_TOKEN}
    assert 0 < values["warm"] < values["cold"] and 0 < values["restart"] < values["cold"]
    assert values["restart-share"] == pytest.approx(100 * values["restart"] / values["cold"])


def test_a_server_that_kept_nothing_is_no_figure():
    @dataclasses.dataclass(frozen=True)
    class Forgetful(prompt_cache.Redpoll):
        def serve_command(self, port: int, context: int, streams: int) -> list:
            return super().serve_command(port, context, streams)[:-2]  # without the disk tier

    with pytest.raises(RuntimeError, match="redpoll had 0, 199 and 0 of 200 tokens"):
        prompt_cache.take_first_tokens(Forgetful(**vars(OURS)), 200, turn=0)


def test_decode_is_measured_while_files_are_written(monkeypatch):
    monkeypatch.setattr(prompt_cache, "DECODE_TOKENS", 16)
    off = dataclasses.replace(OURS, name=prompt_cache.OFF)
    assert set(prompt_cache.take_decode(off, 100, turn=0)) == {"decode"}
    with pytest.raises(RuntimeError, match="redpoll wrote [01] files, which is too few"):
        prompt_cache.take_decode(OURS, 100, turn=0)  # which are no more
    monkeypatch.setattr(prompt_cache, "FEWEST_FILES", 1)
    monkeypatch.setattr(prompt_cache, "DECODE_TOKENS", 900)  # two seconds, or more
    values = prompt_cache.take_decode(OURS, 600, turn=0)
    assert set(values) == {row.key for row in prompt_cache.DECODE} and values["decode"] > 0 and values["files"] >= 1


def test_sides_take_turns_in_alternating_order():
    order = []
    sides = [dataclasses.replace(OURS, name=name) for name in "ab"]
    figures = prompt_cache.measure(argparse.Namespace(repeats=3), "x", sides,
                                   lambda side, turn: order.append(side.name) or {"row": turn})  # fmt: skip
    assert order == ["a", "b", "b", "a", "a", "b"]
    assert [sample.value for sample in figures["row"]["b"]] == [0, 1, 2]
