"""An event of either framework that is lost, doubled, late or malformed gives no false sample."""

from __future__ import annotations

import asyncio
import functools
from collections.abc import Callable, Iterator, Sequence
from contextlib import ExitStack, contextmanager
from copy import copy
from dataclasses import replace
from importlib import import_module
from itertools import product
from random import Random
from typing import Any
from unittest.mock import patch
from uuid import uuid4

import pytest

from rag_eval_hooks import Sample
from tests.matrix.frameworks import shapes
from tests.matrix.shape import Expected, Shape
from tests.matrix.world import World
from tests.support import faults
from tests.support.faults import Faults, Unreadable
from tests.support.size import size
from tests.support.variation import run_seed

pytestmark = pytest.mark.filterwarnings("ignore")
KINDS = ("chain", "retriever", "tool", "llm")
EVENTS = {
    "langchain": [
        *(f"on_{kind}_{moment}" for kind in KINDS for moment in ("start", "end", "error")),
        *("on_chat_model_start", "on_custom_event", "on_interrupt", "on_resume"),
    ],
    "llama_index": [
        *("span_enter", "span_exit", "span_drop"),
        *("cancelled", "model_called", "model_replied", "model_failed"),
    ],
}
"""Methods of the handlers that take every event."""
FAULTS = {
    "langchain": (
        *("lost", "doubled", "late", "after the end", "unreadable", "no parent", "unknown parent"),
    ),
    "llama_index": ("lost", "doubled", "late", "unreadable", "no id", "no payload", "number"),
}
PIPELINES = {
    "langchain": {
        "retriever, prompt, model, parser": 1,
        "fallback of a model": 1,
        "parallel tool calls and several steps": 1,
        "dynamic_prompt with record_contexts": 1,
        # Nothing tells of a graph that waits but its interrupt: without it, the first call is over.
        "interrupt_before and resume": 2,
        "approval of a tool": 2,
    },
    "llama_index": {
        "refine": 1,
        "accumulate": 1,
        "FunctionAgent with a retriever": 1,
        "corrective": 1,
        "router to all": 1,
    },
}
"""Shapes of the matrix, and how many samples one bad event may make of one request."""
CASES = [
    (framework, name, fault)
    for framework in PIPELINES
    for name, fault in product(PIPELINES[framework], FAULTS[framework])
]
UNTOLD = ("batch", "abatch")
"""Where a batch loses the start of a root, nothing tells its parts from requests."""


def shape_of(framework: str, name: str) -> Shape:
    (shape,) = (one for one in shapes(framework) if one.name == name)
    if shape.missing is not None:
        pytest.skip(shape.missing)
    return shape


def handler(framework: str) -> Any:
    module = import_module(f"rag_eval_hooks_{framework}.handler")
    return getattr(module, "Instrumentation", None) or module.RagEvalCallbackHandler


def spoil_langchain(
    fault: str, event: Callable[..., None], args: Any, more: dict[str, Any]
) -> None:
    parent = uuid4() if fault == "unknown parent" else None
    if fault == "unreadable":
        event(*args[:-1], Unreadable(), **more)
    elif more:
        event(*args, **{**more, "parent_run_id": parent})
    else:
        # What LangGraph tells of an interrupt is one object.
        event(replace(args[0], run_id=parent))


def spoil_llama_index(
    fault: str, event: Callable[..., None], args: Any, named: dict[str, Any]
) -> None:
    if fault == "no id":
        without = [one.model_copy(update={"span_id": None}) for one in args]
        event(*without, **({**named, "id_": None} if named else {}))
        return
    payload = {"no payload": None, "number": 7, "unreadable": Unreadable()}[fault]
    if args:
        fields = ("messages", "prompt", "response", "exception")
        event(args[0].model_copy(update=dict.fromkeys(fields, payload)))
    elif "result" in named:
        event(**{**named, "result": payload})
    else:
        bound = copy(named["bound_args"])
        bound.arguments = payload
        event(**{**named, "bound_args": bound})


SPOIL = {"langchain": spoil_langchain, "llama_index": spoil_llama_index}


@contextmanager
def spoiled(framework: str, number: int, fault: str) -> Iterator[Faults]:
    passing, kind = Faults(number, fault, SPOIL[framework]), handler(framework)

    def passed_on(name: str, method: Any) -> Any:
        return lambda self, *args, **more: passing.pass_on(
            name, functools.partial(method, self), *args, **more
        )

    with ExitStack() as stack:
        for name in EVENTS[framework]:
            if method := getattr(kind, name, None):
                stack.enter_context(patch.object(kind, name, passed_on(name, method)))
        yield passing


def ran(
    framework: str, shape: Shape, way: str, number: int, fault: str
) -> tuple[int, list[Sample], Sequence[Expected]]:
    world = World(INTERACTION_SECONDS=3600)
    with spoiled(framework, number, fault) as passing:
        shape.run(world, way)
        for event in passing.after:
            event()
    world.evals.recorder.suspensions.sweep(2**63)  # the time limit, without waiting for it
    samples = [seen.sample for seen in world.seen()]
    world.close()
    return len(passing.kinds), samples, shape.expected(way)


def verdict(sample: Sample, expected: Sequence[Expected]) -> str:
    found = set()
    for due in expected:
        # A call that returned nothing or a number lost its sources, which tell the order.
        unordered = due.any_order or sample.answer in (None, "7")
        answers, contexts = (None, due.answer, "7"), due.contexts or ()
        found.add(faults.judged(sample, due.question, contexts, answers, in_any_order=unordered))
    return next(one for one in ("right", "absent", "marked", "false") if one in found)


@pytest.mark.parametrize(("framework", "name", "fault"), size(CASES[run_seed() % 8 :: 8], CASES))
def test_one_bad_event_gives_no_false_sample(framework: str, name: str, fault: str) -> None:
    shape = shape_of(framework, name)
    dice = Random(f"{name} {fault} {run_seed()}")
    way = dice.choice([one for one in shape.ways if one not in UNTOLD])
    count, whole, due = ran(framework, shape, way, 10_000, "lost")
    assert [verdict(one, due) for one in whole] == ["right"] * len(due)
    assert all(one.answer and one.contexts for one in whole)
    most = len(due) * PIPELINES[framework][name]
    step = size(8, 1)
    for number in range(dice.randrange(step), count, step):
        _, samples, due = ran(framework, shape, way, number, fault)
        wrong = [one.to_dict() for one in samples if verdict(one, due) == "false"]
        assert not wrong, (way, number, wrong)
        ended = [one for one in samples if one.status == "ok"]
        assert len(ended) <= most, (way, number)
        assert sum(one.answer is not None for one in ended) <= len(due), (way, number)
        if fault == "doubled":
            assert [verdict(one, due) for one in samples] == ["right"] * len(due), (way, number)


def test_a_lost_beginning_is_counted_once() -> None:
    direct = shape_of("langchain", "retrieve node with direct search")
    world = World()
    with spoiled("langchain", 0, "lost"):
        direct.run(world, "invoke")
    # The second question is whole.
    assert len(world.seen()) == 1
    assert world.evals.stats().dropped == {"capture_failed": 1}
    world.close()


@pytest.mark.parametrize("name", ["corrective", "FunctionAgent with a retriever"])
def test_step_that_outlives_its_workflow_is_no_request(name: str) -> None:
    """Old versions of LlamaIndex go on with the steps of a cancelled workflow."""
    shape = shape_of("llama_index", name)
    world, kind = World(INTERACTION_SECONDS=3600), handler("llama_index")
    enter = kind.span_enter

    def cut_short(self: Any, id_: str, **event: Any) -> None:
        enter(self, id_, **event)
        if event.get("parent_id") is None:
            self.span_drop(id_, event["bound_args"], err=asyncio.CancelledError())

    with patch.object(kind, "span_enter", cut_short):
        shape.run(world, "run")
    assert not world.seen()
    assert not world.evals.stats().incidents
    assert len(world.evals.recorder) == 0
    world.close()
