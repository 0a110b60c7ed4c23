"""What the scripts of benchmarks take on their command lines."""

import argparse
import pathlib


def positive(text):
    """A whole number of at least 1."""
    try:
        number = int(text)
    except ValueError:
        number = 0
    if number < 1:
        raise argparse.ArgumentTypeError(f"expected a whole number of at least 1, got '{text}'")
    return number


def existing(text):
    """A path where something is."""
    path = pathlib.Path(text)
    if not path.exists():
        raise argparse.ArgumentTypeError(f"there is no '{text}'")
    return path
