"""A redpoll server as a child process: started on a free port, watched, and ended with the test."""

import os
import pathlib
import re
import signal
import subprocess
import threading
import time

ROOT = pathlib.Path(__file__).resolve().parents[2]
START_LIMIT_S = 60
URL_LINE = re.compile(r"url=(http://\S+:\d+)")


def program() -> str:
    """The binary under test: REDPOLL_PROGRAM, else the release build."""
    path = os.environ.get("REDPOLL_PROGRAM", str(ROOT / "build" / "release" / "bin" / "redpoll"))
    if not os.access(path, os.X_OK):
        raise RuntimeError(f"{path} is not there: build first, or set REDPOLL_PROGRAM")
    return path


def clean_environment(**extra: str) -> dict[str, str]:
    """The environment without settings of the person who runs the tests."""
    kept = {name: value for name, value in os.environ.items() if not name.startswith(("REDPOLL_", "HF_"))}
    return kept | extra


class ServerProcess:
    """`redpoll serve` with the given flags. Ready to answer once constructed; use as a context manager."""

    def __init__(self, *flags: str, env: dict[str, str] | None = None, **popen: object):
        self.log: list[str] = []
        self.url = ""
        self._listening = threading.Event()
        self.process = subprocess.Popen(
            [program(), "serve", "--port", "0", *flags],
            stderr=subprocess.PIPE,
            stdout=subprocess.DEVNULL,
            stdin=subprocess.DEVNULL,
            text=True,
            env=clean_environment(**(env or {})),
            **popen,
        )
        self._reader = threading.Thread(target=self._read_log, daemon=True)
        self._reader.start()
        if not self._listening.wait(START_LIMIT_S) or not self.url:
            self.process.kill()
            raise RuntimeError("the server did not start:\n" + "".join(self.log))

    def _read_log(self) -> None:
        for line in self.process.stderr:
            self.log.append(line)
            found = URL_LINE.search(line)
            if found and not self.url:
                self.url = found.group(1)
                self._listening.set()
        self._listening.set()

    @property
    def address(self) -> tuple[str, int]:
        host, port = self.url.removeprefix("http://").rsplit(":", 1)
        return host, int(port)

    def terminate(self, number: int = signal.SIGTERM) -> None:
        self.process.send_signal(number)

    def wait(self, limit_s: float = 20) -> int:
        """The exit code."""
        code = self.process.wait(limit_s)
        self._reader.join(5)
        return code

    def __enter__(self) -> "ServerProcess":
        return self

    def __exit__(self, *_: object) -> None:
        if self.process.poll() is None:
            self.process.terminate()
            try:
                self.process.wait(10)
            except subprocess.TimeoutExpired:
                self.process.kill()
                self.process.wait(10)
        self._reader.join(5)


def run_program(*arguments: str, env: dict[str, str] | None = None, limit_s: float = 60) -> subprocess.CompletedProcess:
    """Runs the program to its end, for commands that should end by themselves."""
    return subprocess.run(
        [program(), *arguments],
        capture_output=True,
        text=True,
        timeout=limit_s,
        env=clean_environment(**(env or {})),
        stdin=subprocess.DEVNULL,
    )


def wait_until(condition, limit_s: float, what: str) -> float:
    """Polls until `condition()` is true; how long it took. Fails the test with `what` after the limit."""
    start = time.monotonic()
    while True:
        if condition():
            return time.monotonic() - start
        waited = time.monotonic() - start
        assert waited < limit_s, f"not within {limit_s} s: {what}"
        time.sleep(0.01)
