"""A span or event of LlamaIndex that is lost, doubled, late or malformed gives no false sample."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Iterator, Mapping
from copy import copy
from typing import Any, NamedTuple

import pytest
from llama_index.core.tools import FunctionTool

from rag_eval_hooks import Sample
from rag_eval_hooks_llama_index import enable
from tests.matrix.llama_index import kit
from tests.matrix.llama_index.agents import NO_TOOL_THREADS
from tests.matrix.llama_index.combined import sub_questions
from tests.matrix.llama_index.engines import joined
from tests.matrix.llama_index.flows import own_workflow
from tests.matrix.llama_index.variants import in_turn
from tests.matrix.world import World

pytestmark = pytest.mark.filterwarnings("ignore")

EVENTS = (
    *("span_enter", "span_exit", "span_drop"),
    *("cancelled", "model_called", "model_replied", "model_failed"),
)
"""Methods to which both handlers pass every event."""
ARGUMENTS = ("id_", "bound_args", "instance", "parent_id", "result", "err", "tags")
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
        self.names: list[str] = []
        for name in EVENTS:
            # A handler is a model of pydantic, which refuses to set other names than of fields.
            vars(registration)[name] = self._passing(name, getattr(registration, name))

    def _passing(self, name: str, event: Callable[..., None]) -> Callable[..., None]:
        def passed(*parts: Any, **named: Any) -> None:
            args = (*parts, *(named[one] for one in ARGUMENTS if one in named))
            self.names.append(name)
            self.left -= 1
            if self.left == -1:
                self._break(name, event, args)
                return
            event(*args)
            while self.late:
                self.late.pop()()

        return passed

    def _break(self, name: str, event: Callable[..., None], args: tuple[Any, ...]) -> None:
        if self.fault == "doubled":
            event(*args)
            event(*args)
        elif self.fault == "late":
            self.late.append(lambda: event(*args))
        elif self.fault == "no id":
            event(*_without_id(args))
        elif self.fault in PAYLOADS:
            event(*_with_payload(name, args, PAYLOADS[self.fault]))


def _without_id(args: tuple[Any, ...]) -> tuple[Any, ...]:
    first, *others = args
    return (None if others else first.model_copy(update={"span_id": None}), *others)


def _with_payload(name: str, args: tuple[Any, ...], payload: Any) -> tuple[Any, ...]:
    """Replace the arguments or the result of a call, a prompt, or a reply."""
    if len(args) == 1:
        fields = ("messages", "prompt", "response", "exception")
        return (args[0].model_copy(update=dict.fromkeys(fields, payload)),)
    at = 3 if name == "span_exit" else 1
    if at == 1:
        bound = copy(args[1])
        bound.arguments = payload
        payload = bound
    return (*args[:at], payload, *args[at + 1 :])


class Pipeline(NamedTuple):
    """A pipeline: how it is asked, and what must come out."""

    ask: Callable[[], Any]
    question: str = kit.QUESTION
    contexts: tuple[str, ...] = tuple(kit.top())
    answer: str = kit.answer_to(kit.QUESTION, kit.top())


async def query() -> Any:
    return (
        await kit.index().as_query_engine(llm=kit.reader(), similarity_top_k=2).aquery(kit.QUESTION)
    )


async def streamed() -> Any:
    engine = kit.index().as_query_engine(llm=kit.reader(), similarity_top_k=2, streaming=True)
    response: Any = await engine.aquery(kit.QUESTION)
    return "".join([token async for token in response.async_response_gen()])


async def divided() -> Any:
    return await sub_questions().aquery(kit.BOTH)


async def workflow() -> Any:
    return await own_workflow().run(**{kit.ASKED: kit.QUESTION})


def search(text: str) -> str:
    return "\n\n".join(n.get_content() for n in kit.index().as_retriever().retrieve(text))


async def agent() -> Any:
    from llama_index.core.agent.workflow import FunctionAgent

    tool = FunctionTool.from_defaults(search, name="search")
    model = in_turn(SAID, kit.pick("search", text=kit.QUESTION))
    return await FunctionAgent(tools=[tool], llm=model, streaming=False).run(user_msg=kit.QUESTION)


SAID = kit.told("It leaves at 07:40 on every working day.")
PIPELINES = {
    "query": Pipeline(query),
    "streamed": Pipeline(streamed),
    "sub-questions": Pipeline(
        divided,
        kit.BOTH,
        tuple(dict.fromkeys([*kit.top(kit.QUESTIONS[0]), *kit.top(kit.QUESTIONS[1])])),
        joined([True, True]),
    ),
    "workflow": Pipeline(workflow),
    "agent": Pipeline(agent, answer=SAID),
}


def judged(sample: Sample, due: Pipeline) -> str:
    """Return whether a sample is right, absent, marked or, alas, false."""
    if sample.status != "ok" or sample.question == "":
        return "absent"
    if sample.cut_parts:
        return "marked"
    contexts = None if sample.contexts is None else tuple(c.text for c in sample.contexts)
    joined = ("\n\n".join(due.contexts),)
    if sample.answer == "7" and contexts is not None and set(contexts) == set(due.contexts):
        # The sources of the answer, which tell the order, were lost with it.
        contexts = due.contexts
    parts = (
        sample.question == due.question,
        contexts in (None, due.contexts, joined),
        # A call that gives out a number has answered with it.
        sample.answer in (None, due.answer, "7"),
    )
    return "right" if all(parts) else "false"


def asked(due: Pipeline, number: int, fault: str) -> tuple[Faults, list[Sample]]:
    """Ask a pipeline while one event is bad; return the samples.

    Each has a world of its own: remains of two requests that ask the same are one to capture.
    """
    world = World(INTERACTION_SECONDS=3600)
    registration = enable(world.evals)
    faults = Faults(registration, number, fault)
    try:
        assert str(asyncio.run(due.ask())) == due.answer
        return faults, [seen.sample for seen in world.seen()]
    finally:
        registration.disable()
        world.close()


@pytest.mark.parametrize("fault", FAULTS)
@pytest.mark.parametrize("name", PIPELINES)
def test_one_bad_event_gives_no_false_sample(name: str, fault: str) -> None:
    """One sample is right, absent or marked, whatever single event is bad."""
    if name == "agent" and NO_TOOL_THREADS is not None:
        pytest.skip(NO_TOOL_THREADS)
    due = PIPELINES[name]
    whole, (sample,) = asked(due, 100_000, "lost")
    assert judged(sample, due) == "right"
    assert sample.contexts is not None
    assert sample.answer == due.answer
    for number in range(len(whole.names)):
        _, samples = asked(due, number, fault)
        wrong = [s.to_dict() for s in samples if judged(s, due) == "false"]
        assert not wrong, (number, wrong)
        assert sum(s.status == "ok" for s in samples) <= 1, "one request gives one sample"
        if fault == "doubled":
            assert [judged(s, due) for s in samples] == ["right"]


@pytest.mark.parametrize("name", [name for name in PIPELINES if name in ("workflow", "agent")])
def test_steps_that_outlive_their_workflow_are_no_request(
    name: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Old versions go on with the steps of a cancelled workflow: nothing becomes of them."""
    world = World(INTERACTION_SECONDS=3600)
    registration = enable(world.evals)
    enter = registration.span_enter

    def cut_short(id_: str, **event: Any) -> None:
        enter(id_, **event)
        monkeypatch.undo()
        registration.span_drop(id_, event["bound_args"], err=asyncio.CancelledError())

    monkeypatch.setitem(vars(registration), "span_enter", cut_short)
    try:
        assert str(asyncio.run(PIPELINES[name].ask())) == PIPELINES[name].answer
        assert not world.seen()
        assert not world.evals.stats().incidents
        assert not world.evals.recorder._runs
    finally:
        registration.disable()
        world.close()
