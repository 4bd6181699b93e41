"""Requests at fixed times, whatever the application is busy with."""

from __future__ import annotations

import asyncio
import gc
import random
import sys
import threading
import time
from array import array
from collections import Counter
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

from benchmarks.corpus import samples
from benchmarks.soak.pipelines import HAS_LLAMA_INDEX
from benchmarks.soak.requests import KINDS, Application, Kind
from benchmarks.soak.variants import Variant

__all__ = ["Host", "drain", "serve"]

_DRAIN_S = 60.0


class Host:
    """What reaches the application and should not, wherever it comes out; a context manager.

    Attributes:
        troubles: Exceptions by where they came out and their class.
    """

    def __init__(self) -> None:
        self.troubles: Counter[str] = Counter()

    def __enter__(self) -> Host:
        """Listens at the edges of the interpreter."""
        self._hooks = threading.excepthook, sys.unraisablehook
        threading.excepthook = lambda told: self.note("thread", told.exc_value)
        sys.unraisablehook = lambda told: self.note("unraisable", told.exc_value)
        return self

    def __exit__(self, *_: object) -> None:
        """Leaves them as they were."""
        threading.excepthook, sys.unraisablehook = self._hooks

    def note(self, where: str, error: BaseException | None) -> None:
        """Counts an exception."""
        self.troubles[f"{where}: {type(error).__name__}"] += 1

    def in_loop(self, _loop: asyncio.AbstractEventLoop, context: dict[str, Any]) -> None:
        """Counts what a task raised and nobody took."""
        self.note("loop", context.get("exception"))


def serve(variant: Variant, seed: int, rate: float, seconds: float, host: Host) -> None:
    """One block of requests, one every 1/rate seconds; then the garbage is collected."""
    count = max(1, round(rate * seconds))
    app = Application(samples(count, seed, 2), variant.evals)
    order = [KINDS[number % len(KINDS)] for number in range(count)]
    random.Random(seed).shuffle(order)
    variant.latencies.append(array("d"))
    with _captured(variant):
        asyncio.run(_block(variant, app, order, rate, host))
    variant.feedback += app.feedback
    if variant.evals is not None:
        variant.sent.update(kind.status for kind in order)
    gc.collect()


def drain(variant: Variant) -> bool:
    """Waits until what the block left is evaluated; whether it is."""
    return variant.evals is None or variant.evals.flush(_DRAIN_S)


async def _block(
    variant: Variant, app: Application, order: list[Kind], rate: float, host: Host
) -> None:
    asyncio.get_running_loop().set_exception_handler(host.in_loop)
    began = time.perf_counter() + 0.1

    async def request(number: int, kind: Kind) -> None:
        due = began + number / rate
        await asyncio.sleep(max(0.0, due - time.perf_counter()))
        try:
            await kind.run(app, number)
        except Exception as error:  # noqa: BLE001 - whatever it is, it is a finding
            host.note(f"request {kind.run.__name__}", error)
        variant.latencies[-1].append((time.perf_counter() - due) * 1e3)

    await asyncio.gather(*(request(n, kind) for n, kind in enumerate(order)))
    # A stream that was left is closed by a task that the loop makes in its own time, one for each
    # generator within another: the end of the loop must not cancel them.
    quiet = 0
    while quiet < 10:
        await asyncio.sleep(0.02)
        quiet = quiet + 1 if len(asyncio.all_tasks()) == 1 else 0


@contextmanager
def _captured(variant: Variant) -> Iterator[None]:
    """LlamaIndex's dispatcher is one for the process: the block's evaluator has it alone."""
    if variant.evals is None or not HAS_LLAMA_INDEX:
        yield
        return
    from rag_eval_hooks_llama_index import enable

    registration = enable(variant.evals)
    try:
        yield
    finally:
        registration.disable()
