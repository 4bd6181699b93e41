"""Memory, threads and files of the application and of the processes that it has."""

from __future__ import annotations

import os
import statistics
import threading
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path

__all__ = ["Look", "Watch", "children", "growth", "ours", "slope"]

_PAGE = os.sysconf("SC_PAGESIZE")


@dataclass(frozen=True)
class Look:
    """One moment.

    Attributes:
        at: Seconds since the beginning.
        app_mb: Resident memory of the application.
        evaluators_mb: Of its model processes together.
        threads: Of the application.
        files: Open in it.
    """

    at: float
    app_mb: float
    evaluators_mb: float
    threads: int
    files: int


class Watch:
    """Looks once a second, in a thread; a context manager.

    Args:
        others: Process ids that are children but no evaluators.

    Attributes:
        looks: In order of time.
    """

    def __init__(self, others: Callable[[], set[int]]) -> None:
        self.looks: list[Look] = []
        self._others = others
        self._began = time.monotonic()
        self._over = threading.Event()
        self._thread = threading.Thread(target=self._run, name="soak-watch")

    @property
    def elapsed(self) -> float:
        """Seconds since it was made."""
        return time.monotonic() - self._began

    def __enter__(self) -> Watch:
        """Begins."""
        self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        """Ends."""
        self._over.set()
        self._thread.join()

    def _run(self) -> None:
        while not self._over.wait(1.0):
            evaluators = children() - self._others()
            self.looks.append(
                Look(
                    self.elapsed,
                    _resident_mb(os.getpid()),
                    sum(map(_resident_mb, evaluators)),
                    threading.active_count(),
                    len(os.listdir("/proc/self/fd")),
                )
            )


def children() -> set[int]:
    """Processes whose parent is this one (Linux)."""
    found = set()
    for task in Path("/proc/self/task").iterdir():
        try:
            found |= set(map(int, (task / "children").read_text().split()))
        except OSError:
            continue
    return found


def ours() -> list[str]:
    """Names of the package's threads that are alive."""
    names = [thread.name for thread in threading.enumerate()]
    return [name for name in names if name.startswith("rag-eval-hooks")]


def growth(looks: Sequence[Look], value: Callable[[Look], float], window: float) -> float:
    """The median of the last `window` seconds less that of the first."""
    if not looks:
        return 0.0
    first = [value(look) for look in looks if look.at <= looks[0].at + window]
    last = [value(look) for look in looks if look.at >= looks[-1].at - window]
    return statistics.median(last) - statistics.median(first)


def slope(looks: Sequence[Look], value: Callable[[Look], float]) -> float:
    """Of the straight line through all of them, per minute."""
    if len(looks) < 2:
        return 0.0
    line = statistics.linear_regression([look.at / 60 for look in looks], list(map(value, looks)))
    return line.slope


def _resident_mb(pid: int) -> float:
    try:
        return int(Path(f"/proc/{pid}/statm").read_text().split()[1]) * _PAGE / 1e6
    except OSError:
        return 0.0
