"""Interactions that the application opens itself."""

from __future__ import annotations

import asyncio
import contextvars
import gc
from collections.abc import Generator, Iterator
from typing import Any

import pytest

from rag_eval_hooks import RagEvalConfig, Sample, Status
from rag_eval_hooks.capture import Assembler, Interaction, ManualInteraction, Recorder, RunKind
from rag_eval_hooks.context import contexts_of
from rag_eval_hooks.incidents import Incidents
from rag_eval_hooks.redaction import Redactor
from tests.support.limits import small_limits
from tests.support.variation import Variation, seeds

A = "The ferry to Skarn leaves at 07:40 from the north quay every day."
B = "Bicycles travel free of charge on all sailings outside the summer."


class Document:
    """Looks like a document of LangChain."""

    def __init__(self, text: str, **metadata: Any) -> None:
        self.page_content = text
        self.metadata = metadata
        self.id = "d1"


class Hit:
    """An object of the application's own, which only it can read."""

    def __init__(self, text: str) -> None:
        self.read = text


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

    def retriever(self, *texts: str) -> None:
        run = self.recorder.start(object(), None, RunKind.RETRIEVER, "retriever")
        assert run is not None
        self.recorder.documents(run, contexts_of(texts))
        self.recorder.end(run)

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


def test_interaction_has_what_the_application_states(log: Log) -> None:
    with log.open("when?", metadata={"session_id": "s"}, tags=["blue"], name="help") as it:
        it.contexts([A, {"text": B, "id": "b", "score": 0.5}])
        it.contexts(Document(A, page=3))
        it.answer("At 07:40.")
        it.metadata({"user_id": "u"}, k=1)
    (sample,) = log.samples()
    assert log.told() == [("when?", "At 07:40.", [A, B])]
    assert (sample.session_id, sample.user_id, sample.metadata) == ("s", "u", {"k": 1})
    assert (sample.tags, log[0].root.name, sample.status) == (("blue",), "help", Status.OK)


def test_documents_keep_id_score_and_scalar_metadata(log: Log) -> None:
    options = {"as_context": lambda one: one.read if isinstance(one, Hit) else None}
    with log.open(options=options) as it:
        it.contexts([(Document(A, page=3, tree=[1]), 0.25), {"page_content": B}])
        it.contexts(Hit("Third."))
    found = log.samples()[0].contexts or ()
    assert (found[0].id, found[0].score, found[0].metadata) == ("d1", 0.25, {"page": 3})
    assert [context.text for context in found[1:]] == [B, "Third."]
    assert not log.incidents.counts()


@pytest.mark.parametrize("seed", seeds(6))
@pytest.mark.parametrize("searches", [1, 2, 4])
def test_too_many_contexts_keep_those_the_answer_names_then_the_best_ranked(
    log: Log, searches: int, seed: int
) -> None:
    draw = Variation(seed)
    found = [draw.passages(draw.chance.randint(51, 90) // searches + 1) for _ in range(searches)]
    ranks = {text: rank for one in found for rank, text in enumerate(one)}
    asked, answer = draw.question(), draw.chance.choice([None, draw.name()])
    named = found[draw.chance.randrange(searches)][-1]
    for said in (answer, named):
        with log.open(asked):
            for one in found:
                log.retriever(*one)
            if said is not None:
                log.model(" ".join([*ranks, asked]), said)
    by_rank, by_name = (texts(sample) or [] for sample in log.samples())
    left = ranks.keys() - set(by_rank)
    assert len(by_rank) == len(by_name) == 50
    assert max(ranks[text] for text in by_rank) <= min(ranks[text] for text in left)
    assert by_rank == [text for text in ranks if text in by_rank]
    assert named in by_name


@pytest.mark.parametrize(
    "wrong", [{"answer": 7}, {"root": ""}, {"retrieval_tools": "t"}, {"as_context": 1}, {"no": 1}]
)
def test_option_that_cannot_work_is_counted(log: Log, wrong: Any) -> None:
    with log.open(options=wrong) as it:
        it.contexts([A])
    assert log.told() == [("q", None, [A])]
    (counted,) = log.incidents.counts()
    assert counted.startswith("capture interaction options: ")


@pytest.mark.parametrize("odd", [7, [7], {"no": "text"}, [None]])
def test_value_that_is_no_document_is_counted_and_raises_nothing(odd: object, log: Log) -> None:
    with log.open() as it:
        it.contexts(odd)
    (counted,) = log.incidents.counts()
    assert counted.startswith("capture contexts: contexts must be texts ")
    assert log.samples()[0].contexts is None


def test_empty_list_is_an_empty_retrieval(log: Log) -> None:
    with log.open() as it:
        it.contexts([])
    assert log.samples()[0].contexts == ()


@pytest.mark.parametrize("answer", [None, "an earlier one"])
def test_answer_of_none_is_no_answer(answer: str | None, log: Log) -> None:
    with log.open() as it:
        it.answer(answer)
        it.answer(None)
    assert log.samples()[0].answer is None
    assert log.incidents.counts() == {}


def test_question_of_none_is_empty_and_counted(log: Log) -> None:
    with log.open(None) as it:
        it.answer("a")
    assert log.told() == [("", "a", None)]
    assert log.incidents.counts() == {"capture interaction: no question": 1}


@pytest.mark.parametrize(
    ("error", "status"),
    [
        (ValueError("x"), Status.ERROR),
        (asyncio.CancelledError(), Status.CANCELLED),
        (GeneratorExit(), Status.CLOSED),
    ],
)
def test_exception_passes_through_and_tells_the_status(
    error: BaseException, status: Status, log: Log
) -> None:
    with pytest.raises(type(error)) as caught, log.open():
        raise error
    assert caught.value is error
    assert [it.status for it in log] == [status]
    assert len(log.recorder) == 0


def test_one_inside_another_joins_it(log: Log) -> None:
    with log.open("when?") as outer:
        outer.contexts(A)
        with log.open("when?", metadata={"k": 1}) as inner:
            inner.contexts(B)
            inner.answer("part")
        outer.answer("whole")
    assert log.told() == [("when?", "whole", [A, B])]
    assert log.samples()[0].metadata == {"k": 1}


def test_one_with_another_question_is_one_of_its_own(log: Log) -> None:
    with log.open("one") as outer:
        outer.contexts(A)
        with log.open("one"), log.open("two") as inner:
            log.retriever(B)
            inner.answer("2")
        outer.answer("1")
    assert sorted(log.told()) == [("one", "1", [A]), ("two", "2", [B])]


def test_interaction_of_another_evaluator_is_no_parent(log: Log) -> None:
    other = Log()
    with log.open("one"), other.open("two") as it:
        it.answer("a")
        log.retriever(A)
    assert [len(found.runs) for found in (*log, *other)] == [2, 1]


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
