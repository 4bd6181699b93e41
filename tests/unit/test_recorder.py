"""Run events in, bounded copies and interactions out."""

from __future__ import annotations

import asyncio
import contextvars
import gc
import sys
import threading
from collections.abc import Generator, Iterator
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from rag_eval_hooks import RagEvalConfig, Status
from rag_eval_hooks.capture import Assembler, Interaction, ManualInteraction, Recorder, Run, RunKind
from rag_eval_hooks.capture.documents import contexts_in, documents_in
from rag_eval_hooks.capture.options import Unmatched
from rag_eval_hooks.capture.snapshots import LATE_NODES, Copier, Snapshots
from rag_eval_hooks.context import contexts_of
from rag_eval_hooks.incidents import Incidents
from rag_eval_hooks.redaction import Redactor
from rag_eval_hooks.redaction.redactor import CutText
from tests.support.size import size
from tests.support.variation import Variation, seeds

A = "The ferry to Skarn leaves at 07:40 from the north quay every day."


class Log(list[Interaction]):
    def __init__(self) -> None:
        super().__init__()
        self.recorder, self.incidents = Recorder(self.take), Incidents()

    def take(self, ended: Interaction) -> None:
        if self.recorder.ended.decide(ended):
            self.append(ended)

    def open(self, question: str) -> ManualInteraction:
        return ManualInteraction(
            self.recorder,
            self.incidents,
            question,
            metadata=None,
            tags=None,
            name=None,
            keywords=[],
        )

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

    def contexts(self) -> list[list[str]]:
        assembler = Assembler(RagEvalConfig(), Redactor(), self.incidents)
        samples = [assembler.sample(it, assembler.session()) for it in self]
        return [[context.text for context in sample.contexts or ()] for sample in samples]


@pytest.fixture
def log() -> Log:
    return Log()


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
        by_rank, by_name = log.contexts()
        left = ranks.keys() - set(by_rank)
        assert len(by_rank) == len(by_name) == 50
        assert max(ranks[text] for text in by_rank) <= min(ranks[text] for text in left)
        assert by_rank == [text for text in ranks if text in by_rank]
        assert named in by_name, draw.seed


def test_title_of_a_pair_is_no_document_and_lists_of_lists_are_read() -> None:
    found = contexts_of([A])
    assert documents_in({"documents": [("Ferries", A)]}) == []
    assert contexts_in([list(found), list(found)]) == found * 2


def test_dropped_generator_swallows_no_other_question(log: Log) -> None:
    def stream() -> Generator[str, None, None]:
        with log.open("dropped"):
            yield "token"

    tokens = stream()
    next(tokens)
    with log.open("next") as it:
        it.answer("own")
    assert [it.root.query for it in log] == ["next"]
    contextvars.copy_context().run(tokens.close)
    log.retriever(A)
    assert [it.status for it in log] == [Status.OK, Status.CLOSED]
    assert len(log.recorder) == 0
    assert log.incidents.counts() == {}


def test_calls_by_hand_keep_the_error_and_the_mark_of_a_cut_question(log: Log) -> None:
    found, called = log.start("found", kind="retriever"), log.start("called", kind="model")
    log.recorder.documents(found, contexts_of([A]))
    called.prompt, called.roles = (A, CutText("When does it leave?")), ("system", "user")
    log.recorder.end(found)
    called.start = found.end or 0
    log.recorder.fail(called, ValueError())
    log.recorder.join(at_once=True)
    assert [(it.root.error_type, *map(type, it.asked)) for it in log] == [("ValueError", CutText)]


def test_resumed_generator_adds_to_its_own_question(log: Log) -> None:
    def stream(question: str) -> Generator[None, None, None]:
        with log.open(question):
            yield
            log.retriever(A)

    first, second = stream("first"), stream("second")
    next(first)
    with log.open("host"):
        next(second)
        assert list(first) == []
    second.close()
    assert {it.root.query: len(it.runs) for it in log} == {"first": 2, "host": 1, "second": 1}


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


@given(st.lists(st.text(min_size=1, max_size=8), min_size=1, max_size=12))
def test_root_whose_id_is_used_again_is_another_interaction(names: list[str]) -> None:
    log = Log()
    for number, name in enumerate(names):
        root = log.start(name)
        log.retriever(A, parent=name)
        log.recorder.end(log.start(f"step {number}", name))
        log.recorder.end(root)
    assert [it.root.id for it in log] == names
    for at, name in enumerate(names):
        assert log.recorder.start(f"step {at}", name, RunKind.TOOL, "late") is None
        assert not log.recorder.is_unknown(name)
    assert log.recorder.is_unknown(("of", "nobody"))


def test_late_children_in_threads_start_no_request(log: Log) -> None:
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
    monkeypatch.setattr("rag_eval_hooks.capture.recorder._MAX_CHARS", 10_000)
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
    repeating = log.start("repeating")
    for number in range(8):
        model = log.start(f"again {number}", "repeating", "model")
        log.recorder.prompt(model, ["x" * 1000])
    # Each repetition of a prompt counts an eighth.
    assert repeating.interaction.kept_chars < 2_000


# Copies of what passes by: equal, bounded, and made without the application's code.


ATOMS = st.one_of(st.none(), st.booleans(), st.integers(), st.text(max_size=20), st.dates())
VALUES = st.recursive(
    ATOMS,
    lambda inner: st.one_of(
        st.lists(inner, max_size=4),
        st.dictionaries(st.text(max_size=4), inner, max_size=4),
        st.tuples(inner, inner),
    ),
    max_leaves=30,
)


def copier(snapshots: Snapshots | None = None, **limits: int) -> Copier:
    made = Snapshots() if snapshots is None else snapshots
    return Copier(made, lambda kind: None, {}, None, 10**9, **limits)


@given(VALUES, VALUES)
def test_copy_is_the_same_object_until_the_value_changes(value: Any, added: Any) -> None:
    snapshots, held = Snapshots(), {"before": value, "list": [value]}
    first = copier(snapshots, nodes=LATE_NODES).of(held)
    assert copier(snapshots, nodes=LATE_NODES).of(held) is first
    held["list"].append(added)
    second = copier(snapshots, nodes=LATE_NODES).of(held)
    assert second is not first
    assert second["before"] is first["before"]
    assert second["list"] == [value, added]


@given(
    st.integers(200, size(3_000, 20_000)), st.sampled_from(["rows", "numbers", "nested", "cycle"])
)
def test_copy_on_the_request_thread_is_bounded_and_says_so(size: int, shape: str) -> None:
    cycle: list[Any] = []
    cycle.extend([cycle] * (20 * size))
    value: Any = {
        "rows": [{"name": str(n), "price": n} for n in range(size)],
        "numbers": {str(n): n for n in range(20 * size)},
        "nested": [[[n]] for n in range(size)],
        "cycle": cycle,
    }[shape]
    made = copier()
    taken = made.of({"value": value, "question": "q"})
    assert made.is_cut
    assert taken["question"] == "q"
    assert _entries(taken) < 4000


def _entries(value: Any) -> int:
    parts = value.values() if isinstance(value, dict) else value
    return 1 + sum(map(_entries, parts)) if isinstance(value, dict | list) else 1


def test_threads_that_see_many_names_at_once_raise_nothing() -> None:
    unmatched = Unmatched(Incidents())

    class Racing(list[str]):
        reads = 0

        def __iter__(self) -> Iterator[str]:
            self.reads += 1
            if self.reads == 2:
                # Another thread adds names after this thread counted the names.
                unmatched.is_named("told", ["root"], list("abcdefghijklmnopqrst"), "here")
            return super().__iter__()

    for names in (Racing(map(str, range(20))), ["later"], ["root"]):
        assert unmatched.is_named("told", ["root"], names, "here") == ("root" in names)
