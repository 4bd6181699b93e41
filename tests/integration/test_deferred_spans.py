"""Spans whose content and children are written off the request's thread, by the real SDK."""

from __future__ import annotations

import os
import threading
from collections.abc import Callable
from typing import Any

import pytest

from rag_eval_hooks.capture import RunKind
from rag_eval_hooks.sample import Context
from tests.support import telemetry_world
from tests.support.telemetry_world import attributes
from tests.waiting import PATIENCE, until

QUESTION = "Where does ann@example.org live?"


class World(telemetry_world.World):
    def __init__(self, redact: Any = None, **config: Any) -> None:
        super().__init__(metrics="lexical", redact=redact, capture_content=True, **config)
        self.named = self.spans.named

    def ask(self, number: int = 0, text: str = "a chunk") -> None:
        recorder = self.evals.recorder
        root = recorder.start(f"{number}", None, RunKind.CHAIN, "help")
        assert root is not None
        root.query, root.text = QUESTION, "In Rome."
        run = recorder.start(f"{number}r", f"{number}", RunKind.RETRIEVER, "store")
        assert run is not None
        recorder.documents(run, [Context(text=text)])
        recorder.end(run)
        recorder.end(root)


def held(rate: float, then: Callable[[str], str] = str) -> tuple[World, threading.Event]:
    started, go_on = threading.Event(), threading.Event()

    def redact(text: str) -> str:
        started.set()
        assert go_on.wait(600)
        return then(text)

    world = World(redact=redact, sample_rate=rate)
    world.ask()
    assert started.wait(PATIENCE)
    return world, go_on


@pytest.mark.parametrize("rate", [0.0, 1.0])
def test_redaction_of_content_costs_the_request_nothing(rate: float) -> None:
    threads: set[int] = set()

    def redact(text: str) -> str:
        threads.add(threading.get_ident())
        return text.replace("ann", "***")

    world, go_on = held(rate, redact)
    # Both would wait for ever.
    assert not world.evals.flush(0.5)
    assert world.evals.stats().offered == 1
    assert not world.evals.shutdown(0.5)
    go_on.set()
    until(lambda: len(world.named("retrieval")) == 1)
    (root,) = world.named("invoke_workflow")
    assert attributes(root)["input.value"] == "Where does ***@example.org live?"
    assert threads
    assert threading.get_ident() not in threads


def test_a_request_after_shutdown_has_its_spans() -> None:
    world = World()
    world.evals.shutdown()
    world.ask()
    (root,) = world.named("invoke_workflow")
    assert attributes(root)["rag.eval.status"] == "shutdown"
    assert attributes(root)["input.value"] == QUESTION


def test_requests_beyond_the_limit_lose_content_and_are_counted() -> None:
    world, go_on = held(0.0)
    long = "word " * 3900
    for number in range(1, 160):
        world.ask(number, long)
    lost = world.evals.stats().incidents["span content omitted"]
    go_on.set()
    assert world.evals.flush(300)
    roots = world.named("invoke_workflow")
    assert len(roots) == len(world.named("retrieval")) == 160
    assert sum("input.value" not in attributes(root) for root in roots) == lost > 0
    world.evals.shutdown()


@pytest.mark.skipif(not hasattr(os, "fork"), reason="needs fork")
def test_a_forked_child_does_not_write_its_parents_spans() -> None:
    world = World(sample_rate=0.0)
    world.ask()
    assert world.evals.flush(300)
    world.ask(2)
    child = os.fork()
    if child == 0:
        world.spans.clear()
        world.evals.flush(300)
        os._exit(len(world.spans.all()) + world.evals.stats().offered)
    assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == 0
    assert world.evals.flush(300)
    assert len(world.named("invoke_workflow")) == len(world.named("retrieval")) == 2
    world.evals.shutdown()
