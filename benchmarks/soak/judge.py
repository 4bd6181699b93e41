"""The judge in a process of its own, and what happens to it."""

from __future__ import annotations

import itertools
import signal
import subprocess
import sys
import threading
from collections import Counter
from pathlib import Path
from urllib.parse import urlsplit

from tests.support.ports import free_port

__all__ = ["FAULTS", "Faults", "JudgeProcess"]

FAULTS = (
    "rate_limit:0.03:0.5,server_error:0.02,cut_json:0.03,cut_body:0.01,drop:0.01,empty:0.01,"
    "hang:0.005"
)
"""What the judge does to calls: the kind, its share, and Retry-After in seconds."""
_ROOT = Path(__file__).parents[2]


class JudgeProcess:
    """An OpenAI-compatible server on loopback with few slots.

    Args:
        slots: Calls that it works on at once.
        latency: Seconds for each.
    """

    def __init__(self, slots: int, latency: float) -> None:
        self._slots = slots
        self._latency = latency
        self._process: subprocess.Popen[str] | None = None
        self.url = self._start(free_port())

    @property
    def pid(self) -> int | None:
        """Of the process that serves now."""
        return None if self._process is None else self._process.pid

    @property
    def calls_per_second(self) -> float:
        """What it can take."""
        return self._slots / self._latency

    def pause(self) -> None:
        """Stops it where it is: connections stay, nothing is answered."""
        self._signal(signal.SIGSTOP)

    def resume(self) -> None:
        """Lets it go on."""
        self._signal(signal.SIGCONT)

    def kill(self) -> None:
        """Ends it with all that it was at; connections are refused from now on."""
        if self._process is not None:
            self._process.kill()
            self._process.wait()
            if self._process.stdout is not None:
                self._process.stdout.close()
            self._process = None

    def restart(self) -> None:
        """Serves again, at the same port."""
        self._start(urlsplit(self.url).port or 0)

    def _start(self, port: int) -> str:
        arguments = ["--port", str(port), "--slots", str(self._slots)]
        arguments += ["--latency", str(self._latency), "--faults", FAULTS]
        self._process = subprocess.Popen(
            [sys.executable, "-m", "tests.servers.judge_server", *arguments],
            cwd=_ROOT,
            stdout=subprocess.PIPE,
            text=True,
        )
        assert self._process.stdout is not None
        url = self._process.stdout.readline().strip()
        if not url:
            raise RuntimeError("the judge did not start")
        return url

    def _signal(self, number: signal.Signals) -> None:
        if self._process is not None:
            self._process.send_signal(number)


class Faults:
    """Stops and kills the judge in turn, in a thread; a context manager.

    Args:
        judge: The judge.
        every: Seconds between two faults.
        longest: Seconds that one lasts.
    """

    def __init__(self, judge: JudgeProcess, every: float, longest: float) -> None:
        self.counts: Counter[str] = Counter()
        self._judge = judge
        self._every = every
        self._lasts = longest
        self._over = threading.Event()
        self._thread = threading.Thread(target=self._run, name="soak-faults")

    def __enter__(self) -> Faults:
        """Begins."""
        self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        """Ends; the judge serves."""
        self._over.set()
        self._thread.join()

    def _run(self) -> None:
        for kind in itertools.cycle(("slow", "refused")):
            if self._over.wait(self._every):
                return
            self.counts[kind] += 1
            begin, end = {
                "slow": (self._judge.pause, self._judge.resume),
                "refused": (self._judge.kill, self._judge.restart),
            }[kind]
            begin()
            self._over.wait(self._lasts)
            end()
