"""Run events in, interactions out, those included that an application opens itself."""

from __future__ import annotations

import asyncio
import contextvars
import gc
import sys
import threading
import time
from collections.abc import Generator, Iterator
from typing import Any

import pytest

from rag_eval_hooks import RagEvalConfig, Sample, Status
from rag_eval_hooks.capture import (
    Assembler,
    Interaction,
    ManualInteraction,
    Recorder,
    Run,
    RunKind,
)
from rag_eval_hooks.context import contexts_of
from rag_eval_hooks.incidents import Incidents
from rag_eval_hooks.redaction import Redactor
from tests.support.limits import small_limits
from tests.support.variation import Variation, seeds

A = "The ferry to Skarn leaves at 07:40 from the north quay every day."


class Log(list[Interaction]):
    """Ended interactions, with a recorder that fills it."""

    def __init__(self, **settings: Any) -> None:
        super().__init__()
        with small_limits(settings):
            self.recorder = Recorder(self.append)
        self.incidents = Incidents()

    def open(self, question: str | None = "q", **more: Any) -> ManualInteraction:
        more = {"metadata": None, "tags": None, "name": None, "options": {}, **more}
        return ManualInteraction(self.recorder, self.incidents, question, **more)

    def model(self, prompt: str, text: str) -> None:
        run = self.recorder.start(object(), "never seen", RunKind.MODEL, "model")
        assert run is not None
        run.prompt, run.text = (prompt,), text
        self.recorder.end(run)

    def retriever(self, *texts: str, parent: str | None = None) -> None:
        run = self.recorder.start(object(), parent, RunKind.RETRIEVER, "retriever")
        assert run is not None
        self.recorder.documents(run, contexts_of(texts))
        self.recorder.end(run)

    def start(self, run_id: str, parent: str | None = None, kind: str = "chain") -> Run:
        run = self.recorder.start(run_id, parent, RunKind(kind), run_id)
        assert run is not None
        return run

    def samples(self) -> list[Sample]:
        assembler = Assembler(RagEvalConfig(), Redactor(), self.incidents)
        return [assembler.sample(it, assembler.session()) for it in self]

    def told(self) -> list[tuple[str, str | None, list[str] | None]]:
        return [(sample.question, sample.answer, texts(sample)) for sample in self.samples()]


@pytest.fixture
def log() -> Log:
    return Log()


def texts(sample: Sample) -> list[str] | None:
    return None if sample.contexts is None else [context.text for context in sample.contexts]


@pytest.mark.parametrize("searches", [1, 4])
def test_too_many_contexts_keep_those_the_answer_names_then_the_best_ranked(searches: int) -> None:
    for draw in map(Variation, seeds(4)):
        log = Log()
        found = [
            draw.passages(draw.chance.randint(51, 90) // searches + 1) for _ in range(searches)
        ]
        ranks = {text: rank for one in found for rank, text in enumerate(one)}
        named = found[draw.chance.randrange(searches)][-1]
        for said in (draw.name(), named):
            with log.open(asked := draw.question()):
                for one in found:
                    log.retriever(*one)
                log.model(" ".join([*ranks, asked]), said)
        by_rank, by_name = (texts(sample) or [] for sample in log.samples())
        left = ranks.keys() - set(by_rank)
        assert len(by_rank) == len(by_name) == 50
        assert max(ranks[text] for text in by_rank) <= min(ranks[text] for text in left)
        assert by_rank == [text for text in ranks if text in by_rank]
        assert named in by_name, draw.seed


def test_interleaved_generators_are_samples_of_their_own(log: Log) -> None:
    """Two streams that one consumer reads in turns; nothing of them is left behind."""

    def stream(name: str) -> Iterator[str]:
        with log.open(name) as it:
            it.contexts([f"{A} {name}"])
            yield "token"
            it.answer(name)

    one, two = stream("one"), stream("two")
    next(one)
    next(two)
    list(one)
    list(two)
    assert log.told() == [(name, name, [f"{A} {name}"]) for name in ("one", "two")]
    log.retriever(A)
    assert [len(it.runs) for it in log] == [1, 1]
    assert len(log.recorder) == 0


def test_dropped_generator_swallows_no_other_question(log: Log) -> None:
    """A value set in one context is never taken back in another; nothing raises."""

    def stream() -> Generator[str, None, None]:
        with log.open("dropped"):
            yield "token"

    tokens = stream()
    next(tokens)
    with log.open("next") as it:
        it.answer("own")
    assert log.told() == [("next", "own", None)]
    contextvars.copy_context().run(tokens.close)
    log.retriever(A)
    assert [it.status for it in log] == [Status.OK, Status.CLOSED]
    assert len(log.recorder) == 0
    assert log.incidents.counts() == {}


async def test_task_that_outlives_an_interaction_neither_joins_nor_keeps_it(log: Log) -> None:
    go = asyncio.Event()

    async def later() -> None:
        await go.wait()
        with log.open("later") as it:
            it.answer("own")

    async with log.open("first"):
        task = asyncio.create_task(later())
        log.retriever(A)
    assert [it.root.query for it in log] == ["first"]
    log.clear()
    gc.collect()
    kept = [one for one in gc.get_objects() if type(one) is Interaction]
    assert "first" not in [one.root.query for one in kept]
    go.set()
    await task
    assert [it.root.query for it in log] == ["later"]


def test_late_step_after_many_requests_starts_no_request(monkeypatch: pytest.MonkeyPatch) -> None:
    """Late events are known by time, not by how many runs ended since; then they are forgotten."""
    log, now = Log(), 0.0
    monkeypatch.setattr(time, "monotonic", lambda: now)
    log.recorder.end(log.start("early"))
    for number in range(12_000):
        log.recorder.end(log.start(f"{number}"))
    assert log.recorder.start("late", "early", RunKind.CHAIN, "late") is None
    now = 3600.0
    for number in range(12_000):
        log.recorder.end(log.start(f"more {number}"))
    assert log.recorder.is_unknown("early")
    assert not log.recorder.is_unknown("more 11999")


def test_late_children_in_threads_start_no_request(log: Log) -> None:
    """A run that starts while its parent ends is a part of that or nothing, never a root."""
    names: list[str] = []

    def children(of: str) -> None:
        for number in range(20):
            names.append(f"{of}.{number}")
            log.recorder.start(names[-1], of, RunKind.CHAIN, "child")

    interval = sys.getswitchinterval()
    sys.setswitchinterval(1e-5)
    try:
        for number in range(300):
            root = log.start(f"root {number}")
            thread = threading.Thread(target=children, args=(root.id,))
            thread.start()
            log.recorder.end(root)
            thread.join()
    finally:
        sys.setswitchinterval(interval)
    assert len(log.recorder) == 0
    assert not any(log.recorder.knows(name) for name in names)


def test_texts_of_all_open_requests_are_bounded_together(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("rag_eval_hooks.capture.bounded._MAX_CHARS", 10_000)
    log = Log()
    for number in range(20):
        root = log.start(f"{number}")
        log.retriever(A, parent=f"{number}")
        log.recorder.prompt(log.start(f"m{number}", f"{number}", "model"), ["x" * 1000])
        assert root.end is None
    log.recorder.sweep()
    assert len(log.recorder) <= 10
    assert {it.status for it in log} == {Status.ABANDONED}
    assert [it.root.id for it in log] == [f"{number}" for number in range(len(log))]
