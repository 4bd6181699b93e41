"""What runs in the evaluator process. Started by `pipeline.process`, never by hand."""

from __future__ import annotations

import asyncio
import contextlib
import ctypes
import os
import pickle
import signal
import socket
import sys
import threading
import time

from rag_eval_hooks.calls import CallLog, CallWatch, logged, watching
from rag_eval_hooks.config.settings import RagEvalConfig
from rag_eval_hooks.errors import RagEvalError
from rag_eval_hooks.evaluation.evaluator_spec import Recipe
from rag_eval_hooks.evaluation.process.link import Frame, Kind, Link
from rag_eval_hooks.evaluation.process.portable import NotPortable, packed
from rag_eval_hooks.evaluation.process.telling import Outbox, RelayedIncidents, relay_logs
from rag_eval_hooks.evaluation.process.watch import RelayedWatch
from rag_eval_hooks.judges.calls.allowance import Allowance, allowing
from rag_eval_hooks.judges.calls.budget import budget_of
from rag_eval_hooks.pipeline import Scorer, Sources
from rag_eval_hooks.score import Cause, NotScored, Outcome, Outcomes
from rag_eval_hooks.suppress import quiet

__all__ = ["main"]

_PR_SET_PDEATHSIG = 1
_LOOK = 1.0
"""Seconds between looks whether the application still is there."""
_TEXT = 300
"""Bytes of the reason why there is no evaluator."""
_CLOSE = 0.8
"""Seconds for judge and models to close."""


def main(parent: int) -> None:
    """Evaluates what comes over the socket on standard input, until its end; never returns.

    Args:
        parent: Process id of the application.
    """
    _die_with(parent)
    # They are sent to the whole group, or by a service manager, and mean the application: it
    # finishes its samples first, and its end is seen here in any case.
    for ignored in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP):
        signal.signal(ignored, signal.SIG_IGN)
    asyncio.run(_serve(_own_socket()))
    # Without exit hooks of model libraries, whose threads may still be at work.
    os._exit(0)


def _die_with(parent: int) -> None:
    if sys.platform == "linux":
        with contextlib.suppress(OSError, AttributeError):
            ctypes.CDLL(None).prctl(_PR_SET_PDEATHSIG, signal.SIGKILL)

    def watch() -> None:
        while os.getppid() == parent:
            time.sleep(_LOOK)
        os._exit(0)

    threading.Thread(target=watch, name="rag-eval-hooks-parent", daemon=True).start()


def _own_socket() -> socket.socket:
    """The socket by a descriptor that no process started here gets; standard input is empty."""
    sock = socket.socket(fileno=os.dup(0))
    with open(os.devnull, "rb") as nothing:
        os.dup2(nothing.fileno(), 0)
    return sock


async def _serve(sock: socket.socket) -> None:
    link = Link(sock)
    start = await link.receive()
    if start is None:
        return
    outbox = Outbox(link)
    relay_logs(outbox)
    try:
        recipe = _recipe(start.body)
        _give_way(recipe.config)
        sources = recipe.sources()
        incidents = RelayedIncidents(outbox)
        scorer = recipe.scorer(sources, incidents)
        budget = budget_of(recipe.config, sources, incidents)
    except Exception as error:  # noqa: BLE001 - it imports the user's own modules
        await link.send(Frame(Kind.REFUSED, body=_why(error).encode(errors="replace")[:_TEXT]))
        return
    outbox.put(Frame(Kind.READY))
    watch = RelayedWatch(outbox)
    telling = [asyncio.create_task(work()) for work in (outbox.run, watch.run)]
    await _Evaluations(scorer, budget, watch, outbox, recipe.config).run(link)
    for task in telling:
        task.cancel()
    await _close(sources)


def _why(error: Exception) -> str:
    """The error in a line: what is missing, by its words; of any other its type alone.

    Nothing of a sample can stand in it, as none has been seen; but objects of the user's are made
    here, which may hold keys, and repeat them. HTTP clients derive theirs from OSError.
    """
    kind = type(error)
    plain = kind.__module__ == "builtins" and isinstance(error, AttributeError | OSError)
    told = plain or isinstance(error, RagEvalError | ImportError)
    return f"{kind.__name__}: {error}" if told else kind.__name__


def _recipe(body: bytes) -> Recipe:
    recipe = pickle.loads(body)
    if not isinstance(recipe, Recipe):
        raise TypeError("no recipe")
    return recipe


def _give_way(config: RagEvalConfig) -> None:
    """Before models are loaded: that takes seconds, and threads made later inherit it."""
    os.nice(config.evaluator_nice)
    if config.evaluator_idle and sys.platform == "linux":
        # Not every sandbox lets a process choose; it is nice in any case.
        with contextlib.suppress(OSError):
            os.sched_setscheduler(0, os.SCHED_IDLE, os.sched_param(0))


async def _close(sources: Sources) -> None:
    with contextlib.suppress(Exception):
        async with asyncio.timeout(_CLOSE):
            for part in (sources.judge, sources.embedder, sources.scorer):
                if part is not None:
                    await part.aclose()


class _Evaluations:
    """The samples at work.

    Args:
        scorer: Evaluates one.
        budget: Of judge calls, shared with the application by its file; or None.
        watch: Tells the application of calls.
        outbox: Where outcomes go.
        config: The settings in force.
    """

    def __init__(
        self,
        scorer: Scorer,
        budget: Allowance | None,
        watch: CallWatch,
        outbox: Outbox,
        config: RagEvalConfig,
    ) -> None:
        self._watch = watch
        self._scorer = scorer
        self._budget = budget
        self._outbox = outbox
        self._most = config.evaluator_message_mb << 20
        self._trace_judge = config.trace_judge

    async def run(self, link: Link) -> None:
        """Evaluates samples as they come, until the other side is gone."""
        running: set[asyncio.Task[None]] = set()
        while (frame := await link.receive()) is not None:
            task = asyncio.create_task(self._answer(frame))
            running.add(task)
            task.add_done_callback(running.discard)
        for task in running:
            task.cancel()

    async def _answer(self, frame: Frame) -> None:
        try:
            reply = Frame(Kind.OUTCOMES, frame.number, await self._evaluate(frame.body))
        except asyncio.CancelledError:
            raise
        except BaseException as error:  # noqa: BLE001 - the metric's edge: even an exit ends here
            reply = Frame(Kind.RAISED, frame.number, type(error).__name__.encode())
        self._outbox.put(reply)

    async def _evaluate(self, body: bytes) -> bytes:
        sample, chosen = pickle.loads(body)
        told = watching(self._watch)
        with quiet(), allowing(self._budget), told, logged(self._trace_judge) as log:
            outcomes = await self._scorer.score(sample, chosen)
        reply = _packed(outcomes, log)
        if len(reply) > self._most:
            raise OverflowError("the outcomes are larger than evaluator_message_mb")
        return reply


def _packed(outcomes: Outcomes, log: CallLog) -> bytes:
    """The outcomes; one that cannot be sent is absent, and the others are sent."""
    try:
        return packed((dict(outcomes), log))
    except NotPortable:
        return packed(({name: _sendable(one) for name, one in outcomes.items()}, log))


def _sendable(outcome: Outcome) -> Outcome:
    try:
        packed(outcome)
    except NotPortable as error:
        return NotScored(Cause.METRIC_FAILED, f"the score cannot be sent: {error}", outcome.usage)
    return outcome
