"""A span or event of LlamaIndex that is lost, doubled, late or malformed gives no false sample."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Iterator, Mapping
from copy import copy
from typing import Any

import pytest
from llama_index.core.agent.workflow import FunctionAgent
from llama_index.core.tools import FunctionTool
from llama_index.core.workflow import StartEvent, StopEvent

from rag_eval_hooks import Sample
from rag_eval_hooks_llama_index import enable
from tests.matrix.llama_index.agents import NO_TOOL_THREADS
from tests.matrix.llama_index.engines import corpora_with_tools, divided
from tests.matrix.llama_index.fixtures import opened, samples
from tests.matrix.llama_index.flows import Flow
from tests.matrix.llama_index.kit import Asked, Corpus, Draw, in_turn, pick, says
from tests.support.size import size
from tests.support.variation import run_seed

pytestmark = pytest.mark.filterwarnings("ignore")

EVENTS = (
    *("span_enter", "span_exit", "span_drop"),
    *("cancelled", "model_called", "model_replied", "model_failed"),
)
"""Methods of the handler that take every event."""
FAULTS = ("lost", "doubled", "late", "no id", "no payload", "number", "unreadable")


class Unreadable(Mapping[str, Any]):
    """A value that fails."""

    def __getitem__(self, key: str) -> Any:
        raise RuntimeError(key)

    def __iter__(self) -> Iterator[str]:
        raise RuntimeError

    def __len__(self) -> int:
        raise RuntimeError


PAYLOADS = {"no payload": None, "number": 7, "unreadable": Unreadable()}


class Faults:
    """Passes every event on, but one of them with a fault."""

    def __init__(self, registration: Any, number: int, fault: str) -> None:
        self.left = number
        self.fault = fault
        self.late: list[Callable[[], None]] = []
        self.passed = 0
        for name in EVENTS:
            # A handler is a model of pydantic, which refuses to set other names than of fields.
            vars(registration)[name] = self._passing(getattr(registration, name))

    def _passing(self, event: Callable[..., None]) -> Callable[..., None]:
        def passed(*args: Any, **named: Any) -> None:
            self.passed += 1
            self.left -= 1
            if self.left == -1:
                self._break(event, args, named)
                return
            event(*args, **named)
            while self.late:
                self.late.pop()()

        return passed

    def _break(self, event: Callable[..., None], args: Any, named: dict[str, Any]) -> None:
        if self.fault == "doubled":
            event(*args, **named)
            event(*args, **named)
        elif self.fault == "late":
            self.late.append(lambda: event(*args, **named))
        elif self.fault == "no id" and args:
            event(args[0].model_copy(update={"span_id": None}))
        elif self.fault == "no id":
            event(**{**named, "id_": None})
        elif self.fault in PAYLOADS:
            payload = PAYLOADS[self.fault]
            if args:
                fields = ("messages", "prompt", "response", "exception")
                event(args[0].model_copy(update=dict.fromkeys(fields, payload)))
            elif "result" in named:
                event(**{**named, "result": payload})
            else:
                bound = copy(named["bound_args"])
                bound.arguments = payload
                event(**{**named, "bound_args": bound})


def query(draw: Draw) -> Asked:
    corpus, answer = Corpus(draw), draw.sentence()
    return corpus.asked(corpus.engine(says(answer), streaming=draw.streaming), answer)


def sub_questions(draw: Draw) -> Asked:
    corpora, tools, shown = corpora_with_tools(draw, 2)
    question, answer = draw.question(), draw.sentence()
    engine = divided(draw, tools, corpora, says(answer))
    return Asked(draw.call(engine, question), question, shown, answer)


def workflow(draw: Draw) -> Asked:
    made = Flow(draw)
    made.answer = draw.sentence()
    steps = (made.retrieve, StartEvent, made.found), (made.write, made.found, StopEvent)
    return made.due(made.run(*steps))


def agent(draw: Draw) -> Asked:
    corpus, question, answer = Corpus(draw), draw.question(), draw.sentence()

    def search(text: str) -> str:
        return "\n\n".join(n.get_content() for n in corpus.retriever.retrieve(text))

    async def run() -> None:
        tool = FunctionTool.from_defaults(search, name="search")
        model = in_turn(answer, pick("search", text=corpus.question))
        await FunctionAgent(tools=[tool], llm=model, streaming=False).run(user_msg=question)

    return Asked(run, question, corpus.shown(), answer)


PIPELINES: dict[str, tuple[Callable[[Draw], Asked], str]] = {
    "query": (query, "aquery"),
    "streamed": (query, "astream"),
    "sub-questions": (sub_questions, "aquery"),
    "workflow": (workflow, "run"),
    "agent": (agent, "run"),
}


def judged(sample: Sample, due: Asked) -> str:
    """Return whether a sample is right, absent, marked or, alas, false."""
    if sample.status != "ok" or sample.question == "":
        return "absent"
    if sample.cut_parts:
        return "marked"
    assert isinstance(due.contexts, list)
    contexts = None if sample.contexts is None else [c.text for c in sample.contexts]
    if sample.answer == "7" and contexts is not None and set(contexts) == set(due.contexts):
        # The sources of the answer, which tell the order, were lost with it.
        contexts = due.contexts
    parts = (
        sample.question == due.question,
        contexts in (None, due.contexts, ["\n\n".join(due.contexts)]),
        # A call that gives out a number has answered with it.
        sample.answer in (None, due.answer, "7"),
    )
    return "right" if all(parts) else "false"


def asked(name: str, number: int, fault: str) -> tuple[Asked, int, list[Sample]]:
    """Ask a pipeline while one event is bad; return its request, its events and the samples.

    Each has a world of its own: remains of two requests that ask the same are one to capture.
    """
    make, way = PIPELINES[name]
    with opened(enabled=False, INTERACTION_SECONDS=3600) as world:
        due = make(Draw(0, way, world))
        registration = enable(world.evals)
        try:
            faults = Faults(registration, number, fault)
            asyncio.run(due.run())
            return due, faults.passed, samples(world)
        finally:
            registration.disable()


@pytest.mark.parametrize("fault", FAULTS)
@pytest.mark.parametrize("name", PIPELINES)
def test_one_bad_event_gives_no_false_sample(name: str, fault: str) -> None:
    """One sample is right, absent or marked, whatever single event is bad."""
    if name == "agent" and NO_TOOL_THREADS is not None:
        pytest.skip(NO_TOOL_THREADS)
    due, count, (sample,) = asked(name, 100_000, "lost")
    assert judged(sample, due) == "right"
    assert (sample.contexts is None, sample.answer) == (False, due.answer)
    step = size(3, 1)
    for number in range(run_seed() % step, count, step):
        due, _, found = asked(name, number, fault)
        wrong = [one.to_dict() for one in found if judged(one, due) == "false"]
        assert not wrong, (number, wrong)
        assert sum(one.status == "ok" for one in found) <= 1, "one request gives one sample"
        if fault == "doubled":
            assert [judged(one, due) for one in found] == ["right"]


@pytest.mark.parametrize("make", [workflow, agent])
def test_step_that_outlives_its_workflow_is_no_request(
    make: Callable[[Draw], Asked], monkeypatch: pytest.MonkeyPatch
) -> None:
    """Old versions go on with the steps of a cancelled workflow."""
    with opened(enabled=False, INTERACTION_SECONDS=3600) as world:
        due = make(Draw(0, "run", world))
        registration = enable(world.evals)
        enter = registration.span_enter

        def cut_short(id_: str, **event: Any) -> None:
            enter(id_, **event)
            monkeypatch.undo()
            registration.span_drop(id_, event["bound_args"], err=asyncio.CancelledError())

        monkeypatch.setitem(vars(registration), "span_enter", cut_short)
        asyncio.run(due.run())
        registration.disable()
        assert not world.seen()
        assert not world.evals.stats().incidents
        assert not world.evals.recorder._runs
