"""What is made of the measured figures: medians, ratios and tables. Pure: nothing here runs anything."""

import dataclasses
import statistics

OURS = "redpoll"


@dataclasses.dataclass(frozen=True)
class Row:
    key: str
    title: str
    unit: str
    more_is_better: bool = True
    digits: int = 1


@dataclasses.dataclass
class Sample:
    value: float
    load: float  # load average of the last minute, taken before


# Figures of one model: {row key: {side: samples}}
Figures = dict[str, dict[str, list[Sample]]]


def median(samples: list[Sample]) -> float:
    return statistics.median(sample.value for sample in samples)


def ratio(ours: list[Sample], theirs: list[Sample]) -> float:
    """Of the medians, ours divided by theirs whatever the row: at rates more than 1 is better, at times and memory
    less."""
    return median(ours) / median(theirs)


def redpoll_rate(report: dict) -> float:
    """The only figure of a `redpoll bench --json`, in tokens a second."""
    [figure] = report["prefill"] + report["decode"]
    return figure["tokens_per_s"]["median"]


def llama_rate(report: list) -> float:
    """The only test of a `llama-bench -o json`, in tokens a second."""
    [test] = report
    return test["avg_ts"]


def load_figures(report: dict) -> dict[str, float]:
    """Of a `redpoll bench serve --json`."""
    return {"rate": report["output_tokens_per_s"], "ttft_ms": report["ttft_ms"]["p50"],
            "prompt_tokens": report["prompt_tokens"]}  # fmt: skip


def table(rows: list[Row], figures: Figures, peers: list[str]) -> str:
    """A Markdown table: absolute medians, ratios, and the highest load average before any of the row's figures."""
    header = ["figure", OURS]
    for peer in peers:
        header += [peer, "ratio"]
    lines = [header + ["load"]]
    for row in rows:
        if row.key in figures:
            lines.append(table_line(row, figures[row.key], peers))
    return layout(lines)


def table_line(row: Row, sides: dict[str, list[Sample]], peers: list[str]) -> list[str]:
    line = [f"{row.title}, {row.unit}", f"{median(sides[OURS]):.{row.digits}f}"]
    for peer in peers:
        if sides.get(peer):
            line += [f"{median(sides[peer]):.{row.digits}f}", f"{ratio(sides[OURS], sides[peer]):.2f}"]
        else:
            line += ["", ""]
    return line + [f"{max(sample.load for samples in sides.values() for sample in samples):.1f}"]


def table_of_models(rows: list[Row], models: list[tuple[list[str], Figures]], peer: str) -> str:
    """A line for each model, which begins with the cells that are given, and in it each row beside one peer."""
    header = ["model", "made after"]
    for row in rows:
        header += [f"{row.title}, {row.unit}", peer, "ratio"]
    lines = [header + ["load"]]
    for cells, figures in models:
        line, loads = list(cells), []
        for row in rows:
            _, *values, load = table_line(row, figures[row.key], [peer])
            line += values
            loads.append(load)
        lines.append(line + [max(loads, key=float)])
    return layout(lines)


def layout(lines: list[list[str]]) -> str:
    widths = [max(len(line[i]) for line in lines) for i in range(len(lines[0]))]
    texts = ["| " + " | ".join(cell.ljust(width) for cell, width in zip(line, widths)) + " |" for line in lines]
    texts.insert(1, "|" + "|".join("-" * (width + 2) for width in widths) + "|")
    return "\n".join(texts) + "\n"


def as_json(rows: list[Row], figures: Figures, peers: list[str]) -> dict:
    result = {}
    for row in rows:
        sides = figures.get(row.key)
        if sides is None:
            continue
        result[row.key] = {
            "unit": row.unit,
            "better": "more" if row.more_is_better else "less",
            "sides": {side: {"median": median(samples), "samples": [dataclasses.asdict(sample) for sample in samples]}
                      for side, samples in sides.items()},
            "ratios": {peer: ratio(sides[OURS], sides[peer]) for peer in peers if sides.get(peer)},
        }  # fmt: skip
    return result
