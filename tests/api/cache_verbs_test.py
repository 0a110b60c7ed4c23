"""`redpoll cache`: what a disk cache holds, whether it is in order, and removing it without touching anything else."""

import json
import os
import shutil

import pytest

from server_process import ROOT, run_program

EXIT_FINE, EXIT_FAILED, EXIT_USAGE = 0, 1, 2

# A file with a run of four tokens and a payload of seven bytes, written by hand.
EXAMPLE = ROOT / "tests/fuzz/corpus/kv_file/complete"
FOLDER = "ab" * 8
NAME = f"run-{EXAMPLE.read_bytes()[112:128].hex()}.kv"


@pytest.fixture
def directory(tmp_path):
    """One good file, one in the wrong place, and what is not ours."""
    folder = tmp_path / "cache" / FOLDER
    folder.mkdir(parents=True)
    shutil.copy(EXAMPLE, folder / NAME)
    os.utime(folder / NAME, (1_600_000_000, 1_600_000_000))
    other = tmp_path / "cache" / ("cd" * 8)
    other.mkdir()
    shutil.copy(EXAMPLE, other / NAME)
    os.utime(other / NAME, (1_700_000_000, 1_700_000_000))
    (folder / "notes.txt").write_text("mine")
    (tmp_path / "cache" / NAME).write_text("mine")
    return tmp_path / "cache"


def test_ls_counts_by_model(directory):
    result = run_program("cache", "ls", str(directory), "--json")
    assert result.returncode == EXIT_FINE, result.stderr
    listed = json.loads(result.stdout)
    assert listed["directory"] == str(directory)
    good = {"files": 1, "bytes": 4103, "oldest_use": 1_600_000_000, "newest_use": 1_600_000_000}
    bad = {"files": 1, "bytes": 4103, "oldest_use": 1_700_000_000, "newest_use": 1_700_000_000}
    assert listed["models"] == [
        {"fingerprint": FOLDER, "damaged": 0, "tokens": 4} | good,
        {"fingerprint": "cd" * 8, "damaged": 1, "tokens": 0} | bad,
    ]
    lines = run_program("cache", "ls", str(directory)).stdout.splitlines()
    assert lines[0].split() == "model files damaged bytes tokens oldest use (UTC) newest use (UTC)".split()
    assert lines[1].split() == [FOLDER, "1", "0", "4103", "4", *["2020-09-13", "12:26:40"] * 2]
    assert len(lines) == 3


def test_verify_names_what_is_bad_and_removes_nothing(directory):
    result = run_program("cache", "verify", str(directory), "--fingerprint", FOLDER)
    assert (result.returncode, result.stdout) == (EXIT_FINE, "1 file checked, 0 bad\n")
    data = bytearray(EXAMPLE.read_bytes())
    data[-1] ^= 1
    (directory / FOLDER / NAME).write_bytes(data)
    result = run_program("cache", "verify", str(directory))
    assert result.returncode == EXIT_FAILED
    assert result.stdout.splitlines() == [
        f"{directory / FOLDER / NAME}: the payload's checksum is wrong",
        f"{directory / ('cd' * 8) / NAME}: it is of another model: {'ab' * 32}",
        "2 files checked, 2 bad",
    ]
    assert (directory / FOLDER / NAME).exists()


def test_verify_as_json_has_what_the_text_says(directory):
    result = run_program("cache", "verify", str(directory), "--json", "--fingerprint", FOLDER)
    assert (result.returncode, result.stderr) == (EXIT_FINE, "")
    assert json.loads(result.stdout) == {"directory": str(directory), "files": 1, "damaged": 0, "problems": []}
    result = run_program("cache", "verify", str(directory), "--json")
    assert result.returncode == EXIT_FAILED and "not every file is in order" in result.stderr
    path = str(directory / ("cd" * 8) / NAME)
    problem = {"path": path, "message": f"{path}: it is of another model: {'ab' * 32}"}
    assert json.loads(result.stdout) == {"directory": str(directory), "files": 2, "damaged": 1, "problems": [problem]}


def test_cache_alone_says_what_it_can_do():
    result = run_program("cache", "--help")
    assert (result.returncode, result.stderr) == (EXIT_FINE, "")
    assert all(f"\n  cache {verb} " in result.stdout for verb in ["ls", "verify", "clear"])
    bare = run_program("cache")
    assert (bare.returncode, bare.stdout) == (EXIT_USAGE, "")
    assert bare.stderr.endswith(result.stdout)
    unknown = run_program("cache", "list")
    assert unknown.returncode == EXIT_USAGE
    assert "there is no command 'cache list'" in unknown.stderr and "`redpoll cache --help`" in unknown.stderr


def test_clear_removes_files_of_ours_only(directory):
    result = run_program("cache", "clear", str(directory), "--fingerprint", "cd" * 8)
    assert (result.returncode, result.stdout) == (EXIT_FINE, f"removed 1 file of {'cd' * 8}, 0.0 MB\n")
    assert (directory / FOLDER / NAME).exists() and not (directory / ("cd" * 8)).exists()
    (directory / FOLDER / (NAME + ".tmp")).write_text("half")
    result = run_program("cache", "clear", str(directory))
    assert (result.returncode, result.stdout) == (EXIT_FINE, f"removed 1 file of {FOLDER}, 0.0 MB\n")
    assert sorted(path.name for path in directory.rglob("*")) == sorted([FOLDER, NAME, "notes.txt"])


@pytest.mark.parametrize("verb", ["ls", "verify", "clear"])
def test_what_cannot_be_is_said(verb, tmp_path):
    result = run_program("cache", verb)
    assert result.returncode == EXIT_USAGE and f"cache {verb} needs a DIR" in result.stderr
    result = run_program("cache", verb, str(tmp_path / "missing"))
    assert result.returncode == EXIT_FAILED
    assert result.stderr == f"redpoll: cannot open {tmp_path / 'missing'}: No such file or directory\n"
    result = run_program("cache", verb, str(tmp_path), "--fingerprint", FOLDER)
    assert result.returncode == EXIT_FAILED
    assert result.stderr == f"redpoll: there is nothing of {FOLDER} in {tmp_path}\n"
    result = run_program("cache", verb, str(tmp_path), "--fingerprint", "AB" * 8)
    assert result.returncode == EXIT_USAGE
    assert "--fingerprint: expected 16 digits from 0 to f, got 'ABABABABABABABAB'" in result.stderr
    assert f"usage: redpoll cache {verb} [DIR] [flags]" in run_program("cache", verb, "--help").stdout
