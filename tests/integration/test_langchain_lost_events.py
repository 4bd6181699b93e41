"""One event that is lost, doubled, late or malformed gives no false sample."""

from __future__ import annotations

import asyncio
import itertools
from collections import Counter
from collections.abc import Callable
from contextlib import suppress
from dataclasses import replace
from functools import partial
from importlib import import_module
from typing import Any
from uuid import UUID, uuid4

import pytest
from langchain_core.callbacks import dispatch_custom_event
from langchain_core.language_models import FakeListLLM
from langchain_core.messages import AIMessage, BaseMessage, HumanMessage
from langchain_core.output_parsers import StrOutputParser
from langchain_core.retrievers import BaseRetriever
from langchain_core.runnables import RunnableLambda, RunnablePassthrough
from langchain_core.tools import tool

from rag_eval_hooks import Sample
from rag_eval_hooks_langchain import RagEvalCallbackHandler
from rag_eval_hooks_langchain.handler import CONTEXTS_EVENT
from tests.matrix.langchain import graphs, interrupts
from tests.matrix.langchain.agents import pick
from tests.matrix.langchain.compat import AGENTS_MISSING, GRAPHS_MISSING, agent
from tests.matrix.langchain.kit import (
    ASKED,
    PROMPT,
    QUESTION,
    SHOWN,
    Chat,
    answer_to,
    joined,
    store,
    top,
)
from tests.matrix.world import World
from tests.support import faults
from tests.support.faults import Faults, Unreadable
from tests.support.size import size
from tests.support.variation import run_seed

ANSWER = answer_to(QUESTION, top())
EVENTS = [
    f"on_{kind}_{moment}"
    for kind in ("chain", "retriever", "tool", "llm")
    for moment in ("start", "end", "error")
] + ["on_chat_model_start", "on_custom_event"]
EVENTS += [] if interrupts.NO_EVENTS else ["on_interrupt", "on_resume"]
FAULTS = (
    "lost",
    "doubled",
    "late",
    "after the end",
    "unreadable",
    "no parent",
    "unknown parent",
)
HARMLESS = ("doubled",)
# Where a batch loses the start of a root, nothing tells its parts from requests.
WAYS = ("invoke", "ainvoke", "stream", "astream", "astream_events")


def spoil(fault: str, event: Callable[..., None], args: Any, more: dict[str, Any]) -> None:
    if fault == "unreadable":
        event(*args[:-1], Unreadable(), **more)
        return
    changed = {
        "parent_run_id" if more else "run_id": uuid4() if fault == "unknown parent" else None
    }
    if more:
        event(*args, **{**more, **changed})
    else:
        # What LangGraph tells of an interrupt is one object.
        event(replace(args[0], **changed))


def faulty(world: World, number: int, fault: str) -> tuple[RagEvalCallbackHandler, Faults]:
    """A handler that gets every event of a run, but one of them with a fault."""
    handler, passing = RagEvalCallbackHandler(world.evals), Faults(number, fault, spoil)
    for name in EVENTS:
        setattr(handler, name, partial(passing.pass_on, name, getattr(handler, name)))
    return handler, passing


def simple() -> Any:
    inputs: Any = {SHOWN: store().as_retriever(search_kwargs={"k": 2}) | joined}
    answering = PROMPT | Chat(reply=lambda _: ANSWER) | StrOutputParser()
    return {**inputs, ASKED: RunnablePassthrough()} | answering


def searching() -> Any:
    @tool
    def search(query: str) -> str:
        """Search the timetable."""
        return joined(store().as_retriever(search_kwargs={"k": 2}).invoke(query))

    def reply(messages: list[BaseMessage]) -> Any:
        done = any(isinstance(message, AIMessage) for message in messages)
        return ANSWER if done else pick(("search", QUESTION))

    return agent(Chat(reply=reply), [search])


def fail(_: Any) -> Any:
    raise OSError


def troubled() -> Any:
    """Every kind of step fails once, and another one answers in its place; a record by event."""
    failing = tool("failing")(fail_text)

    def search(query: str) -> str:
        with suppress(OSError):
            failing.invoke(query)
        found = store().as_retriever(search_kwargs={"k": 2})
        documents = Broken().with_fallbacks([found]).invoke(query)
        dispatch_custom_event(CONTEXTS_EVENT, documents)
        return joined(documents)

    plain: Any = FakeListLLM(responses=[ANSWER])
    models = Chat(reply=fail).with_fallbacks([plain])
    step: Any = RunnableLambda(fail).with_fallbacks([RunnableLambda(search)])
    inputs: Any = {SHOWN: step, ASKED: RunnablePassthrough()}
    return inputs | PROMPT | models | StrOutputParser()


def fail_text(query: str) -> str:
    """Fail."""
    raise OSError(query)


class Broken(BaseRetriever):
    """Raises whatever is asked."""

    def _get_relevant_documents(self, query: str, *, run_manager: Any) -> Any:
        raise OSError(query)


def resumed() -> Any:
    return import_module("langgraph.types").Command(resume=True)


NO_GRAPHS, NO_WAITING = GRAPHS_MISSING is not None, interrupts.NO_EVENTS is not None
PIPELINES: dict[str, tuple[Callable[[], Any], list[Any]]] = {
    "simple": (simple, [QUESTION]),
    "troubled": (troubled, [QUESTION]),
    **({} if AGENTS_MISSING else {"agent": (searching, [{"messages": [HumanMessage(QUESTION)]}])}),
    **({} if NO_GRAPHS else {"asking": (interrupts.approving, [{ASKED: QUESTION}, resumed()])}),
    **({} if NO_WAITING else {"waiting": (interrupts.stopping, [{ASKED: QUESTION}, None])}),
}


def judged(sample: Sample) -> str:
    return faults.judged(sample, QUESTION, top(), (None, ANSWER))


def run(world: World, pipeline: str, way: str, *bad: Any, **more: Any) -> Faults:
    """Ask a pipeline in one way, go on where it waits, and check that its user gets the answer."""
    build, inputs = PIPELINES[pipeline]
    handler, passing = faulty(world, *bad)
    config: Any = {"callbacks": [handler], **more}
    if len(inputs) > 1:
        config["configurable"] = {"thread_id": str(uuid4())}
    chain = build()
    said: list[Any] = []
    for given in inputs:
        said += ask(chain, way, given, config)
        while passing.after:
            passing.after.pop()()
    assert ANSWER in "".join(map(str, said))
    return passing


def ask(chain: Any, way: str, given: Any, config: Any) -> list[Any]:
    """Call a runnable in one way, and return all that comes out."""

    async def read(parts: Any) -> list[Any]:
        return [part async for part in parts]

    more = {"version": "v2"} if way == "astream_events" else {}
    called = getattr(chain, way)([given] if "batch" in way else given, config, **more)
    if way == "stream":
        return list(called)
    if way.startswith("astream"):
        return asyncio.run(read(called))
    return [asyncio.run(called) if way.startswith("a") else called]


def events_of(pipeline: str, way: str = "invoke") -> list[str]:
    """Return the kinds of the events of a run without a fault, whose sample is right."""
    world = World()
    passing = run(world, pipeline, way, 10_000, "lost")
    (seen,) = world.seen()
    assert judged(seen.sample) == "right"
    assert seen.sample.answer == ANSWER
    assert [c.text for c in seen.sample.contexts or ()] == top()
    world.close()
    return passing.kinds


def seen_by(world: World) -> list[Sample]:
    """Return all samples, with those of requests that nobody went on with."""
    world.evals.recorder.suspensions.sweep(2**63)  # the time limit, without waiting for it
    return [seen.sample for seen in world.seen()]


def ways_of(number: int) -> list[str]:
    """Return one way, or all at full size: another one for each case and for each run."""
    first = number + number // len(FAULTS) + run_seed()
    return size([WAYS[first % len(WAYS)]], list(WAYS))


CASES = [
    (pipeline, fault, way)
    for number, (pipeline, fault) in enumerate(itertools.product(PIPELINES, FAULTS))
    for way in ways_of(number)
]


@pytest.mark.parametrize(("pipeline", "fault", "way"), CASES)
def test_one_bad_event_gives_no_false_sample(pipeline: str, fault: str, way: str) -> None:
    """A sample is right, absent or marked, and counted, whatever single event is bad."""
    world = World(INTERACTION_SECONDS=3600)
    count = len(events_of(pipeline, way))
    for number in range(count):
        passing = run(world, pipeline, way, number, fault, metadata={"number": number})
        assert passing.left < 0, "the fault did not happen"
    samples = seen_by(world)
    world.close()
    wrong = [s.to_dict() for s in samples if judged(s) == "false"]
    assert not wrong, wrong
    finished = [s for s in samples if s.status == "ok"]
    answered = Counter(s.metadata.get("number") for s in finished if s.answer is not None)
    assert max(answered.values()) == 1, "one request gives one answer"
    # Of a graph that waits nothing tells but its interrupt: without it the first call is over.
    asked = Counter(s.metadata.get("number") for s in finished)
    assert max(asked.values()) <= len(PIPELINES[pipeline][1]), "one call gives one sample"
    sure = Counter(s.metadata.get("number") for s in finished if judged(s) == "right")
    assert max(sure.values(), default=0) <= 1, "one request gives one sample without a mark"
    told = Counter(judged(sample) for sample in samples)
    assert told["right"] + told["marked"], "a fault that nothing survives shows nothing"
    if fault in HARMLESS:
        assert told == {"right": count}


@pytest.mark.parametrize(
    "pipeline", [name for name, (_, given) in PIPELINES.items() if not given[1:]]
)
@pytest.mark.parametrize("key", ["text of a UUID", "any text", "UUID"])
def test_runs_have_the_ids_that_the_host_gives(pipeline: str, key: str) -> None:
    """An id that is a text, as servers pass it to know a request again, changes nothing."""
    ids: dict[str, Any] = {"UUID": uuid4(), "text of a UUID": str(uuid4()), "any text": "request-7"}
    world = World()
    build, (given,) = PIPELINES[pipeline]
    run_id: UUID = ids[key]
    handler = RagEvalCallbackHandler(world.evals)
    try:
        build().invoke(given, {"callbacks": [handler], "run_id": run_id})
    except (TypeError, AttributeError) as error:
        pytest.skip(f"this LangChain takes no such id: {error}")
    (seen,) = world.seen()
    assert judged(seen.sample) == "right"
    assert seen.sample.answer == ANSWER
    assert not world.evals.stats().incidents
    world.close()


@pytest.mark.skipif(GRAPHS_MISSING is not None, reason=str(GRAPHS_MISSING))
def test_a_lost_beginning_is_counted_once() -> None:
    """Steps of a root whose start was lost are one failed capture and no samples."""
    world = World()
    graphs.direct().invoke({ASKED: QUESTION}, {"callbacks": [faulty(world, 0, "lost")[0]]})
    assert world.seen() == []
    assert world.evals.stats().dropped == {"capture_failed": 1}
    world.close()
