"""The arithmetic of the numerics gate: windows of token ids, and how far one set of logits is from another.

Knows no model and no program. Everything is float64, since the better candidates differ from the reference in the
eighth digit.
"""

from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field

import numpy as np

ROWS_AT_ONCE = 4  # of float64, so that a vocabulary of 50,000 stays in a core's own cache
_pool = ThreadPoolExecutor()  # numpy works on long rows without the interpreter's lock


def windows_of(ids, size):
    """Cuts ids into windows of `size`; the last one may be shorter, but not so short that it predicts nothing."""
    cuts = [ids[first : first + size] for first in range(0, len(ids), size)]
    return [cut for cut in cuts if len(cut) > 1]


def _in_parts(compute, num_rows):
    """Joins what compute(slice) returns, a tuple of arrays with a row for each of the slice."""
    slices = [slice(first, first + ROWS_AT_ONCE) for first in range(0, num_rows, ROWS_AT_ONCE)]
    return [np.concatenate(parts) for parts in zip(*_pool.map(compute, slices))]


def _exponentials(rows):
    """exp(row - its largest value), the sums of those, and log(sum(exp(row)))."""
    peaks = rows.max(axis=-1, keepdims=True)
    exponentials = rows - peaks
    np.exp(exponentials, out=exponentials)
    sums = exponentials.sum(axis=-1)
    return exponentials, sums, np.log(sums) + peaks[:, 0]


class Expected:
    """What the reference says about one window: logits (n, vocabulary) and what follows from them."""

    def __init__(self, ids, logits):
        self.ids = np.asarray(ids)
        self.logits = np.asarray(logits, dtype=np.float64)
        self.normalizers, self.best, self.probabilities = _in_parts(self._part, len(self.logits))

    def _part(self, rows):
        part = self.logits[rows]
        exponentials, sums, normalizers = _exponentials(part)
        exponentials /= sums[:, None]
        return normalizers, part.argmax(axis=-1), exponentials


@dataclass
class Comparison:
    """A candidate against the reference, over all windows added."""

    divergences: list = field(default_factory=list)  # KL(reference || candidate) in nats, for each token
    agreements: list = field(default_factory=list)  # whether both have the same likeliest token
    surprises: list = field(default_factory=list)  # -log p(next token) of the candidate, where there is a next one

    def add(self, expected, logits):
        def part(rows):
            theirs = np.asarray(logits[rows], dtype=np.float64)
            normalizers = _exponentials(theirs)[2]
            best = theirs.argmax(axis=-1)
            gaps = np.subtract(expected.logits[rows], theirs)
            mean_gaps = np.einsum("ij,ij->i", expected.probabilities[rows], gaps)
            return normalizers, mean_gaps - expected.normalizers[rows] + normalizers, best

        if np.shape(logits) != expected.logits.shape:
            raise ValueError(f"expected logits of shape {expected.logits.shape}, got {np.shape(logits)}")
        normalizers, divergences, best = _in_parts(part, len(expected.logits))
        self.divergences.append(divergences)
        self.agreements.append(best == expected.best)
        following = expected.ids[1:]
        self.surprises.append(normalizers[:-1] - np.asarray(logits)[np.arange(len(following)), following])

    def figures(self):
        divergences = np.concatenate(self.divergences)
        return {
            "tokens": len(divergences),
            "mean_kl": float(divergences.mean()),
            "p99_kl": float(np.quantile(divergences, 0.99)),
            "max_kl": float(divergences.max()),
            "agreement": float(np.concatenate(self.agreements).mean()),
            "perplexity": float(np.exp(np.concatenate(self.surprises).mean())),
        }


def num_continued(prompt_ids, continuation, logits):
    """How many ids of a known greedy continuation are the likeliest where they were chosen; `logits` are those of the
    prompt and the continuation together. All of them, if and only if the candidate would have written it itself."""
    first = len(prompt_ids) - 1
    best = np.asarray(logits)[first : first + len(continuation)].argmax(axis=-1)
    return int((best == np.asarray(continuation)).sum())


def passes(figures, continued, bar):
    """Whether a candidate is at least as near to the reference as the bar and finds every id of the known
    continuations; `continued` is how many it finds and how many there are."""
    found, total = continued
    as_near = figures["mean_kl"] <= bar["mean_kl"] and figures["agreement"] >= bar["agreement"]
    return as_near and found == total
