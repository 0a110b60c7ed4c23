"""The programs that are compared, behind one interface: measure the engine alone, and (not mlx-lm) serve over HTTP."""

import dataclasses
import json
import os
import pathlib
import socket
import subprocess
import tempfile
import time
import urllib.error
import urllib.request

import peer_report

START_LIMIT_S = 300


@dataclasses.dataclass(frozen=True)
class Engine:
    """One figure of the engine alone: a prompt of `prefill` tokens, or `decode` tokens after `depth` others."""

    prefill: int = 0
    decode: int = 0
    depth: int = 0


@dataclasses.dataclass(frozen=True)
class Redpoll:
    program: pathlib.Path
    model: pathlib.Path
    threads: int
    environment: dict
    name: str = peer_report.OURS

    def rate(self, what: Engine) -> float:
        """Tokens a second."""
        wanted = ["--prefills", what.prefill or "none", "--batches", "1" if what.decode else "none"]
        if what.decode:
            wanted += ["--depths", what.depth, "--decode-tokens", what.decode]
        report = output([self.program, "bench", "--model", self.model, "--threads", self.threads, "--repetitions", 1,
                         *wanted, "--json"], self.environment)  # fmt: skip
        return peer_report.redpoll_rate(json.loads(report))

    def serve_command(self, port: int, context: int, streams: int) -> list:
        return [self.program, "serve", "--model", self.model, "--threads", self.threads, "--port", port,
                "--context-length", context, "--max-batch", streams]  # fmt: skip


@dataclasses.dataclass(frozen=True)
class LlamaCpp:
    programs: pathlib.Path
    model: pathlib.Path
    threads: int
    name: str
    environment: dict

    def rate(self, what: Engine) -> float:
        report = output([self.programs / "llama-bench", "-m", self.model, "-t", self.threads, "-r", 1,
                         "-p", what.prefill, "-n", what.decode, "-d", what.depth, "-o", "json"],
                        self.environment)  # fmt: skip
        return peer_report.llama_rate(json.loads(report))

    def serve_command(self, port: int, context: int, streams: int) -> list:
        return [self.programs / "llama-server", "-m", self.model, "-t", self.threads, "-tb", self.threads,
                "--port", port, "-c", context, "-np", streams, "--no-ui"]  # fmt: skip


@dataclasses.dataclass(frozen=True)
class MlxLm:
    """The engine alone."""

    python: pathlib.Path
    model: pathlib.Path
    threads: int
    name: str
    environment: dict

    def rate(self, what: Engine) -> float:
        script = pathlib.Path(__file__).with_name("peer_mlx.py")
        report = output([self.python, script, self.model, self.threads, what.prefill, what.decode], self.environment)
        return json.loads(report)["tokens_per_s"]


class Server:
    """A server of either side, as a context: running and healthy inside, stopped afterwards."""

    def __init__(self, side, context: int, streams: int):
        port = free_port()
        self.url = f"http://127.0.0.1:{port}"
        self.log = tempfile.TemporaryFile()
        started_at = time.monotonic()
        self.process = subprocess.Popen(
            words(side.serve_command(port, context, streams)), env=side.environment, stdin=subprocess.DEVNULL,
            stdout=self.log, stderr=self.log)  # fmt: skip
        try:
            self.wait_until_healthy(started_at + START_LIMIT_S)
        except BaseException:
            self.stop()
            raise
        self.start_s = time.monotonic() - started_at

    def wait_until_healthy(self, limit: float) -> None:
        while not answers(self.url + "/health"):
            if self.process.poll() is not None or time.monotonic() > limit:
                self.log.seek(0)
                raise RuntimeError("the server did not start:\n" + self.log.read().decode(errors="replace")[-4000:])
            time.sleep(0.002)

    def resident_mb(self) -> float:
        """10^6 bytes of memory, pages of mapped files among them."""
        status = pathlib.Path(f"/proc/{self.process.pid}/status").read_text()
        [kilobytes] = [line.split()[1] for line in status.splitlines() if line.startswith("VmRSS:")]
        return int(kilobytes) * 1024 / 1e6

    def stop(self) -> None:
        self.process.terminate()
        try:
            self.process.wait(20)
        except subprocess.TimeoutExpired:
            self.process.kill()
            self.process.wait()
        self.log.close()

    def __enter__(self) -> "Server":
        return self

    def __exit__(self, *_) -> None:
        self.stop()


@dataclasses.dataclass(frozen=True)
class Load:
    """What `redpoll bench serve` sends, to either side."""

    streams: int
    prompt_words: int
    answer_tokens: int
    seed: int

    def send(self, program: pathlib.Path, url: str) -> dict[str, float]:
        report = output([program, "bench", "serve", "--url", url, "--streams", self.streams, "--requests", self.streams,
                         "--prompt-words", self.prompt_words, "--warm-up-words", 8, "--max-tokens", self.answer_tokens,
                         "--seed", self.seed, "--json"], dict(os.environ))  # fmt: skip
        return peer_report.load_figures(json.loads(report))


def answers(url: str) -> bool:
    """Whether it answers 200; a server that loads refuses the connection or answers 503."""
    try:
        with urllib.request.urlopen(url, timeout=5) as response:
            return response.status == 200
    except (urllib.error.URLError, ConnectionError, TimeoutError):
        return False


def free_port() -> int:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return probe.getsockname()[1]


def words(command: list) -> list[str]:
    return [str(word) for word in command]


def output(command: list, environment: dict) -> str:
    done = subprocess.run(words(command), env=environment, stdin=subprocess.DEVNULL, capture_output=True, text=True)
    if done.returncode != 0:
        raise RuntimeError(f"{' '.join(words(command))} ended with {done.returncode}:\n{done.stderr[-4000:]}")
    return done.stdout
