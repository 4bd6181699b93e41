"""Metrics of a user's own that harm their evaluator, or tell about it, when a sample says so."""

from __future__ import annotations

import asyncio
import ctypes
import logging
import os
import re
import signal
import sys
import threading
import time
from collections.abc import Sequence
from pathlib import Path

from opentelemetry import metrics, trace

from rag_eval_hooks import Metric, NotScored, Sample, Score
from rag_eval_hooks.findings import Findings
from rag_eval_hooks.metrics import AskedMetric, Field
from rag_eval_hooks.score import UNIT, Cause, Outcome
from rag_eval_hooks.suppress import is_quiet

__all__ = ["DEEDS", "Locked", "about", "absent", "asked", "deeds", "slow"]


def _killed() -> None:
    os.kill(os.getpid(), signal.SIGKILL)


def _crash() -> None:
    ctypes.string_at(0)


def _hang() -> None:
    # Holds the interpreter lock for years: no thread and no signal handler runs meanwhile.
    re.match(r"(a+)+$", "a" * 60 + "b")


def _raise() -> None:
    raise ValueError("content of the sample")


def _exit() -> None:
    sys.exit(3)


def _print() -> None:
    print("secret on stdout", flush=True)  # noqa: T201 - what is tested
    print("secret on stderr", file=sys.stderr, flush=True)  # noqa: T201 - the same
    os.write(1, b"secret on 1")
    os.write(2, b"secret on 2")
    for _ in range(3):
        logging.getLogger("some.library").warning("secret in a log")


DEEDS = {
    "kill": _killed,
    "crash": _crash,
    "hang": _hang,
    "raise": _raise,
    "exit": _exit,
    "print": _print,
}


def _do(sample: Sample, findings: Findings) -> Outcome:
    deed = sample.metadata.get("deed")
    if deed == "unsendable":
        return UNIT.score(1.0, explanation={"function": lambda: 1})
    if deed in DEEDS:
        DEEDS[deed]()
    return Score(value=float(len(sample.question)), normalised=1.0)


def _schedulers() -> list[int]:
    """How each thread but the one that looks for the parent is scheduled (Linux)."""
    tasks = Path("/proc/self/task")
    threads = sorted(int(task.name) for task in tasks.iterdir()) if tasks.is_dir() else []
    mostly_asleep = {t.native_id for t in threading.enumerate() if "parent" in t.name}
    return [os.sched_getscheduler(t) for t in threads if t not in mostly_asleep]


def _tell(sample: Sample, findings: Findings) -> Outcome:
    torch = sys.modules.get("torch")
    told = {
        "pid": os.getpid(),
        "parent": os.getppid(),
        "nice": os.nice(0),
        "schedulers": _schedulers(),
        "argv": sys.argv,
        "folder": os.getcwd(),
        "main": getattr(sys.modules["__main__"], "__file__", None),
        "otel": sorted(name for name in os.environ if name.startswith("OTEL_")),
        "threads": os.environ.get("OMP_NUM_THREADS"),
        "shapes": os.environ.get("ONEDNN_PRIMITIVE_CACHE_CAPACITY"),
        "torch_threads": None if torch is None else torch.get_num_threads(),
        "tracer": type(trace.get_tracer_provider()).__module__,
        "meter": type(metrics.get_meter_provider()).__module__,
        "records": trace.get_tracer("t").start_span("s").is_recording(),
        "quiet": is_quiet(),
        "metadata": sorted(sample.metadata),
    }
    return UNIT.score(1.0, explanation=told)


def _wait(sample: Sample, findings: Findings) -> Outcome:
    time.sleep(float(sample.metadata.get("seconds", 0.05)))
    return UNIT.score(1.0)


def _absent(sample: Sample, findings: Findings) -> Outcome:
    return NotScored(Cause.UNDEFINED, "never")


async def _ask(sample: Sample) -> Outcome:
    await asyncio.sleep(float(sample.metadata.get("seconds", 0.05)))
    return UNIT.score(1.0)


_QUESTION = frozenset({Field.QUESTION})

deeds = Metric(id="own.deeds", score=_do, needs=_QUESTION)
"""Does what the sample's metadata say, then gives the length of the question."""
about = Metric(id="own.about", score=_tell, needs=_QUESTION)
"""Explains where it runs."""
slow = Metric(id="own.slow", score=_wait, needs=_QUESTION)
"""Blocks the event loop for as long as the sample says."""
absent = Metric(id="own.absent", score=_absent, needs=_QUESTION)
"""Has no value."""
asked = AskedMetric(id="own.asked", ask=_ask, needs=_QUESTION, timeout=600.0)
"""Asks somebody who may take ten minutes, and takes as long as the sample says."""


class Locked:
    """An embedder that cannot be made anew in another process, and says so with its key."""

    name = "locked"
    local_model = True

    def __init__(self, key: str) -> None:
        self.key = key

    def __setstate__(self, state: dict[str, str]) -> None:
        raise ValueError(f"Incorrect API key provided: {state['key']}")

    async def embed(self, texts: Sequence[str]) -> list[list[float]]:
        """The same for every text."""
        return [[1.0, 1.0] for _ in texts]

    async def aclose(self) -> None:
        """Holds nothing."""
