"""Run events in, interactions out."""

from __future__ import annotations

import subprocess
import sys
import threading
import time
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from rag_eval_hooks.capture import Interaction, Recorder, Run, RunKind
from rag_eval_hooks.sample import Context, Status
from tests.support.limits import small_limits


class Log(list[Interaction]):
    """Ended interactions, with a recorder that fills it."""

    def __init__(self, **settings: Any) -> None:
        super().__init__()
        with small_limits(settings):
            self.recorder = Recorder(self.append)

    def start(self, run_id: str, parent: str | None = None, kind: str = "chain") -> Run:
        run = self.recorder.start(run_id, parent, RunKind(kind), run_id)
        assert run is not None
        return run

    def retrieve(self, run_id: str, parent: str) -> None:
        run = self.start(run_id, parent, "retriever")
        self.recorder.documents(run, [Context(text="a chunk")])
        self.recorder.end(run)


@pytest.fixture
def log() -> Log:
    return Log()


@given(st.lists(st.text(min_size=1, max_size=8), min_size=1, max_size=12))
def test_root_whose_id_is_used_again_is_another_interaction(names: list[str]) -> None:
    """Applications name requests by ids of their own, and a retry may use one again."""
    log = Log()
    for number, name in enumerate(names):
        root = log.start(name)
        log.retrieve(f"retriever {number}", name)
        log.recorder.end(root)
    assert [it.root.id for it in log] == names
    assert all(
        log.recorder.start(f"retriever {n}", name, RunKind.TOOL, "late") is None
        for n, name in enumerate(names)
    )


def test_open_interactions_are_bounded() -> None:
    """One interaction too many abandons the oldest."""
    log = Log(OPEN_INTERACTIONS=2)
    for name in "abc":
        log.start(name)
        log.retrieve(f"r{name}", name)
    assert [it.root.id for it in log] == ["a"]
    assert len(log.recorder) == 2


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


def test_interrupted_request_is_reported_at_exit() -> None:
    """A process that ends without a shutdown loses no interrupted interaction either."""
    code = """
from rag_eval_hooks.capture import Recorder, RunKind
from rag_eval_hooks.sample import Context
recorder = Recorder(lambda it: print(it.status.value))
root = recorder.start("r", None, RunKind.CHAIN, "graph", {"thread_id": "t"})
recorder.documents(root, [Context(text="a chunk")])
root.interaction.interrupted = True
recorder.end(root)
print("ends")
"""
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout.split() == ["ends", "interrupted"]


def stopped(log: Log, run_id: str, mark: str, *, error: bool = False) -> None:
    """A graph in a thread that stops in a step with a mark."""
    root = log.recorder.start(run_id, None, RunKind.CHAIN, "graph", {"thread_id": "t"})
    assert root is not None
    root.query, root.interaction.resumable = run_id, True
    log.retrieve(f"r of {run_id}", run_id)
    log.start(f"step of {run_id}", run_id).checkpoint = mark
    if error:
        log.recorder.fail(root, ValueError())
    else:
        root.interaction.interrupted = True
        log.recorder.end(root)


def resuming(log: Log, mark: str) -> tuple[Run, bool]:
    """Start a root that goes on from a checkpoint; whether anything had stopped there."""
    name = f"on {mark}, after {len(log)}"
    root = log.recorder.start(name, None, RunKind.CHAIN, "graph", {"thread_id": "t"})
    assert root is not None
    resumed = log.recorder.suspensions.resume(root, "graph/t//", lambda one: mark in one.stops)
    root.interaction.read()
    return root, resumed


@given(
    st.booleans(), st.dictionaries(st.text(max_size=4), st.sets(st.text(max_size=9)), max_size=3)
)
def test_resumed_interaction_keeps_what_the_first_part_knew(
    asked: bool, rewritten: dict[str | None, set[str]]
) -> None:
    """A retriever that was asked, and texts that a step replaced, are known after an interrupt."""
    log = Log()
    root = log.recorder.start("first", None, RunKind.CHAIN, "graph", {"thread_id": "t"})
    assert root is not None
    if asked:
        log.recorder.fail(log.start("retriever", "first", "retriever"), LookupError())
    root.interaction.rewritten = {name: set(texts) for name, texts in rewritten.items()}
    log.recorder.interrupt(root, "m1")
    log.recorder.end(root)
    again, resumed = resuming(log, "m1")
    assert resumed
    assert again.interaction.attempted is asked
    assert again.interaction.retrieves is asked
    assert again.interaction.rewritten == rewritten


def test_interrupted_request_is_resumed_by_its_checkpoint(log: Log) -> None:
    """Two may wait in one conversation; each goes on as itself, in any order."""
    stopped(log, "one", "m1")
    stopped(log, "two", "m2")
    for name, mark in (("two", "m2"), ("one", "m1")):
        root, resumed = resuming(log, mark)
        assert (root.query, resumed) == (name, True)
        log.recorder.end(root)
    assert [(it.status, len(it.lists)) for it in log] == [(Status.OK, 1)] * 2


def test_two_requests_that_fit_are_not_resumed(log: Log) -> None:
    """Interactions of which two fit are not resumed, and each is counted by its own end."""
    stopped(log, "one", "same")
    stopped(log, "two", "same")
    root, resumed = resuming(log, "same")
    assert not resumed
    assert root.query is None
    log.recorder.suspensions.close()
    assert [it.status for it in log] == [Status.INTERRUPTED] * 2


def test_failed_request_is_counted_and_may_be_tried_again(log: Log) -> None:
    """The further try is an interaction of its own, with the question and what was found."""
    stopped(log, "one", "m1", error=True)
    assert [it.status for it in log] == [Status.ERROR]
    root, _ = resuming(log, "m1")
    assert root.query == "one"
    log.recorder.end(root)
    assert [it.status for it in log] == [Status.ERROR, Status.OK]
    assert [c.text for found in log[1].lists for c in found.contexts] == ["a chunk"]
    assert not resuming(log, "m1")[1]


def test_sweep_waits_for_reports_of_another_thread() -> None:
    """An end that another thread is just reporting is reported when a sweep returns."""
    reporting, goes_on = threading.Event(), threading.Event()
    reported: list[Interaction] = []

    def report(interaction: Interaction) -> None:
        reporting.set()
        goes_on.wait()
        reported.append(interaction)

    recorder = Recorder(report)
    root = recorder.start("root", None, RunKind.CHAIN, "root")
    retriever = recorder.start("r", "root", RunKind.RETRIEVER, "r")
    assert root is not None
    assert retriever is not None
    recorder.end(retriever)
    over: list[Status] = []
    recorder.follow(root, lambda: over[0] if over else None)
    recorder.end(root)
    over.append(Status.OK)
    first = threading.Thread(target=recorder.sweep)
    first.start()
    reporting.wait()
    seen: list[int] = []

    def sweep_and_look() -> None:
        recorder.sweep()
        seen.append(len(reported))

    second = threading.Thread(target=sweep_and_look)
    second.start()
    second.join(0.2)
    goes_on.set()
    second.join()
    first.join()
    assert seen == [1]


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


ANSWERS = st.lists(
    st.sampled_from(["ferry", "quay", "nine", "harbor", "leaves", "Skarn", "north"]), min_size=4
)


@given(ANSWERS, st.booleans(), st.integers(0, 2))
def test_model_that_runs_on_closes_a_request_only_if_it_may_be_answering(
    words: list[str], background: bool, cut: int
) -> None:
    """A title that is still being written is not the answer; a stream that nobody reads on is."""
    log, answer = Log(), " ".join(words)
    root = log.start("root")
    log.retrieve("r", "root")
    if background:
        answering = log.start("answering", "root", "model")
        log.recorder.answer(answering, answer)
        log.recorder.end(answering)
    log.start("running", "root", "model")
    log.recorder.answer(root, answer if background else answer[: -1 - cut])
    log.recorder.end(root)
    (ended,) = log
    assert ended.status is (Status.OK if background else Status.CLOSED)
    assert not ended.left_out


def test_texts_of_all_open_requests_are_bounded_together(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("rag_eval_hooks.capture.bounded._MAX_CHARS", 10_000)
    log = Log()
    for number in range(20):
        root = log.start(f"{number}")
        log.retrieve(f"r{number}", f"{number}")
        log.recorder.prompt(log.start(f"m{number}", f"{number}", "model"), ["x" * 1000])
        assert root.end is None
    log.recorder.sweep()
    assert len(log.recorder) <= 10
    assert {it.status for it in log} == {Status.ABANDONED}
    assert [it.root.id for it in log] == [f"{number}" for number in range(len(log))]
