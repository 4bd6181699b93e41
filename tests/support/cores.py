"""Cores for model processes, which take only idle time: a busy machine has none for minutes."""

from __future__ import annotations

import contextlib
import os
import sys
import threading
from collections.abc import Iterator
from pathlib import Path


@contextlib.contextmanager
def model_processes_have_cores() -> Iterator[None]:
    if sys.platform != "linux":
        yield
        return
    ended = threading.Event()

    def work() -> None:
        while not ended.wait(0.2):
            for pid in _descendants(os.getpid()):
                _end_idling(pid)

    thread = threading.Thread(target=work, daemon=True)
    thread.start()
    try:
        yield
    finally:
        ended.set()
        thread.join()


def _descendants(pid: int) -> Iterator[int]:
    children: list[str] = []
    # Threads and processes may end meanwhile.
    with contextlib.suppress(OSError):
        for task in Path(f"/proc/{pid}/task").iterdir():
            with contextlib.suppress(OSError):
                children += (task / "children").read_text().split()
    for child in map(int, children):
        yield child
        yield from _descendants(child)


def _end_idling(pid: int) -> None:
    with contextlib.suppress(OSError):
        for task in Path(f"/proc/{pid}/task").iterdir():
            if os.sched_getscheduler(int(task.name)) == os.SCHED_IDLE:
                os.sched_setscheduler(int(task.name), os.SCHED_OTHER, os.sched_param(0))
