"""A span or event of LlamaIndex that is lost, doubled, late or malformed gives no false sample."""

from __future__ import annotations

import asyncio
import functools
from collections.abc import Callable, Mapping
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
from tests.support import faults
from tests.support.faults import Faults, Unreadable
from tests.support.size import size
from tests.support.variation import run_seed

pytestmark = pytest.mark.filterwarnings("ignore")

EVENTS = (
    *("span_enter", "span_exit", "span_drop"),
    *("cancelled", "model_called", "model_replied", "model_failed"),
)
"""Methods of the handler that take every event."""
FAULTS = ("lost", "doubled", "late", "no id", "no payload", "number", "unreadable")


PAYLOADS = {"no payload": None, "number": 7, "unreadable": Unreadable()}


def spoil(fault: str, event: Callable[..., None], args: Any, named: dict[str, Any]) -> None:
    if fault == "no id":
        event(*(one.model_copy(update={"span_id": None}) for one in args), **named | no_id(named))
        return
    payload = PAYLOADS[fault]
    if args:
        fields = ("messages", "prompt", "response", "exception")
        event(args[0].model_copy(update=dict.fromkeys(fields, payload)))
    elif "result" in named:
        event(**{**named, "result": payload})
    else:
        bound = copy(named["bound_args"])
        bound.arguments = payload
        event(**{**named, "bound_args": bound})


def no_id(named: Mapping[str, Any]) -> dict[str, Any]:
    return {"id_": None} if named else {}


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
    assert isinstance(due.contexts, list)
    if sample.question == "":
        return "absent"
    # A call that gives out a number has answered with it, and its sources, which tell the order,
    # were lost.
    assert not callable(due.answer)
    answers = (None, due.answer, "7")
    in_any_order = sample.answer == "7"
    return faults.judged(
        sample, str(due.question), due.contexts, answers, in_any_order=in_any_order
    )


def asked(name: str, number: int, fault: str) -> tuple[Asked, int, list[Sample]]:
    """Ask a pipeline while one event is bad; return its request, its events and the samples.

    Each has a world of its own: remains of two requests that ask the same are one to capture.
    """
    make, way = PIPELINES[name]
    with opened(enabled=False, INTERACTION_SECONDS=3600) as world:
        due = make(Draw(0, way, world))
        registration = enable(world.evals)
        try:
            passing = Faults(number, fault, spoil)
            for event in EVENTS:
                # A handler is a model of pydantic, which refuses other names than of fields.
                original = getattr(registration, event)
                vars(registration)[event] = functools.partial(passing.pass_on, event, original)
            asyncio.run(due.run())
            return due, len(passing.kinds), samples(world)
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
