"""A program at a pseudo-terminal, as a person sees it."""

import os
import pty
import re
import select
import signal
import time

ESCAPES = re.compile(rb"\x1b(\[[0-9;?]*[A-Za-z]|[=>])")


class Terminal:
    """Runs a command on a terminal of its own. Use as a context manager."""

    def __init__(self, command: list[str], env: dict[str, str]):
        self._pid, self._terminal = pty.fork()
        if self._pid == 0:
            try:
                os.execvpe(command[0], command, env)
            finally:
                os._exit(127)
        self._output = b""

    def type(self, text: str | bytes) -> None:
        os.write(self._terminal, text.encode() if isinstance(text, str) else text)

    def press_ctrl(self, letter: str) -> None:
        self.type(bytes([ord(letter.upper()) - 64]))

    def read_until(self, wanted: str, limit_s: float = 60) -> str:
        """What comes on the screen up to and with `wanted`, without escape sequences."""
        return self._read(lambda: wanted.encode() in self._output, wanted, limit_s)

    def read_more(self, limit_s: float = 60) -> str:
        """Whatever comes next, at least one visible character."""
        return self._read(lambda: self._output.strip() != b"", "", limit_s)

    def wait(self, limit_s: float = 20) -> int:
        """The exit code; what still comes is dropped."""
        end = time.monotonic() + limit_s
        while time.monotonic() < end:
            pid, status = os.waitpid(self._pid, os.WNOHANG)
            if pid:
                self._pid = 0
                return os.waitstatus_to_exitcode(status)
            self._receive(0.05)
        raise AssertionError(f"still running after {limit_s} s; the screen shows: {self._output!r}")

    def _receive(self, wait_s: float) -> None:
        if not select.select([self._terminal], [], [], wait_s)[0]:
            return
        try:
            self._output = ESCAPES.sub(b"", self._output + os.read(self._terminal, 4096))
        except OSError:  # closed by its end
            time.sleep(wait_s)

    def _read(self, found, wanted: str, limit_s: float) -> str:
        end = time.monotonic() + limit_s
        while not found():
            assert time.monotonic() < end, f"not within {limit_s} s: {wanted!r}; the screen shows: {self._output!r}"
            self._receive(0.1)
        cut = self._output.find(wanted.encode()) + len(wanted.encode()) if wanted else len(self._output)
        seen, self._output = self._output[:cut], self._output[cut:]
        return seen.decode(errors="replace")

    def __enter__(self) -> "Terminal":
        return self

    def __exit__(self, *_: object) -> None:
        if self._pid:
            os.kill(self._pid, signal.SIGKILL)
            os.waitpid(self._pid, 0)
        os.close(self._terminal)
