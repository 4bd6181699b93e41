"""Spans of another instrumentor that wait for our scores, by the real SDK."""

from __future__ import annotations

import os
import threading
import time
from typing import Any

import pytest
from opentelemetry.sdk.trace import ReadableSpan, Span, SpanLimits, SpanProcessor
from opentelemetry.sdk.trace.export import BatchSpanProcessor, SimpleSpanProcessor
from opentelemetry.sdk.trace.export.in_memory_span_exporter import InMemorySpanExporter
from opentelemetry.trace import Link, SpanContext, StatusCode

from rag_eval_hooks.capture import Run, RunKind
from rag_eval_hooks.config import limits
from rag_eval_hooks.findings import Findings
from rag_eval_hooks.sample import Context
from rag_eval_hooks.span_processor import RagEvalSpanProcessor
from rag_eval_hooks.testing import ScriptedJudge
from tests.support import telemetry_world
from tests.support.telemetry_world import HALF, attributes
from tests.waiting import PATIENCE, until

SCORE, STATUS = "rag.eval.ragas.faithfulness.score", "rag.eval.status"


class World(telemetry_world.World):
    def __init__(
        self,
        *,
        processors: int = 1,
        latency: float = 0.0,
        judge: ScriptedJudge | None = None,
        **how: Any,
    ) -> None:
        super().__init__(judge=judge or ScriptedJudge(HALF, latency=latency), **how)
        self.provider = self.spans.provider
        self.tracer = self.provider.get_tracer("theirs", "1.2")
        self.exporters = [InMemorySpanExporter() for _ in range(processors)]
        for exporter in self.exporters:
            inner = BatchSpanProcessor(exporter, schedule_delay_millis=20)
            self.provider.add_span_processor(RagEvalSpanProcessor(inner, self.evals))

    def begun(self, name: str = "theirs", *, retrieves: bool = True) -> tuple[Run, Span]:
        self._runs += 1
        recorder, number = self.evals.recorder, self._runs
        root = recorder.start(f"{number} root", None, RunKind.CHAIN, name)
        span: Any = self.tracer.start_span(name, attributes={"their": "own"})
        kind = RunKind.RETRIEVER if retrieves else RunKind.CHAIN
        child = recorder.start(f"{number} child", f"{number} root", kind, "child")
        assert root is not None
        assert child is not None
        root.query, root.text = "q", "a"
        self.evals.instrumentors.note(child, lambda _: (True, span))
        if retrieves:
            recorder.documents(child, [Context(text="a chunk")])
        recorder.end(child)
        return root, span

    def request(self, name: str = "theirs", *, ours_first: bool = True, **more: bool) -> Span:
        root, span = self.begun(name, **more)
        if ours_first:
            self.evals.recorder.end(root)
        span.end(end_time=(getattr(span, "start_time", None) or 0) + 5_000_000)
        self.evals.recorder.end(root)
        return span

    def exported(self, exporter: int = 0, *, due: int = 0) -> list[ReadableSpan]:
        """Wait for at least `due` spans, and return those sent so far but evaluation spans."""

        def found() -> list[ReadableSpan]:
            spans = self.exporters[exporter].get_finished_spans()
            return [span for span in spans if not span.name.startswith("evaluation")]

        until(lambda: len(found()) >= due)
        # For what is not to go out.
        time.sleep(0.1)
        return found()

    def flushed(self, exporter: int = 0) -> list[ReadableSpan]:
        assert self.evals.flush(300)
        assert self.provider.force_flush()
        return self.exported(exporter)


orders = pytest.mark.parametrize("ours_first", [True, False], ids=["ours first", "theirs first"])


@orders
def test_it_goes_out_once_with_scores_and_all_that_it_had(ours_first: bool) -> None:
    world = World(evaluation_span="trace")
    link = Link(SpanContext(1, 2, is_remote=False))
    with world.tracer.start_as_current_span("outer", links=[link]) as outer:
        outer.set_status(StatusCode.OK)
        span = world.request(ours_first=ours_first)
    spans = {found.name: found for found in world.flushed()}
    assert set(spans) == {"theirs", "outer"}
    assert len(world.exported()) == 2
    theirs = spans["theirs"]
    told = attributes(theirs)
    assert (told["their"], told[SCORE], told[STATUS]) == ("own", 0.5, "ok")
    assert theirs.context == span.get_span_context()
    assert theirs.parent is not None
    assert theirs.parent.span_id == spans["outer"].context.span_id
    assert (theirs.start_time, theirs.end_time) == (span.start_time, span.end_time)
    assert theirs.resource == world.provider.resource
    assert theirs.instrumentation_scope == span.instrumentation_scope
    assert theirs.to_json()
    assert len(theirs.links) == 1
    assert SCORE not in attributes(span)
    assert attributes(spans["outer"]) == {}
    world.evals.shutdown()
    world.provider.shutdown()
    assert len(world.exporters[0].get_finished_spans()) == 3


@orders
def test_it_is_kept_until_the_scores_are_there(ours_first: bool) -> None:
    go = threading.Event()

    def wait(_task: object) -> Findings:
        go.wait(PATIENCE)
        return HALF

    world = World(judge=ScriptedJudge(wait), hold_timeout=PATIENCE)
    world.request(ours_first=ours_first)
    world.request(ours_first=ours_first, retrieves=False, name="no rag")
    world.tracer.start_span("other").end()
    assert sorted(span.name for span in world.exported(due=2)) == ["no rag", "other"]
    go.set()
    assert sorted(span.name for span in world.flushed()) == ["no rag", "other", "theirs"]
    world.evals.shutdown()


def test_one_too_many_goes_out_as_overflow(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(limits, "HELD_SPANS", 1)
    world = World(latency=600)
    for name in ("first", "second"):
        world.request(name=name)
    (span,) = world.exported(due=1)
    assert (span.name, attributes(span)[STATUS]) == ("second", "overflow")
    world.evals.shutdown(0)


@pytest.mark.parametrize("how", ["evals", "provider"])
def test_a_shutdown_loses_nothing(how: str) -> None:
    world = World(latency=600)
    world.request(ours_first=how == "evals")
    shutdowns = [lambda: world.evals.shutdown(0), world.provider.shutdown]
    for shutdown in shutdowns[:: 1 if how == "evals" else -1]:
        shutdown()
    (span,) = world.exported(due=1)
    assert attributes(span)[STATUS] == "shutdown"


@pytest.mark.parametrize(("latency", "told"), [(0.2, "ok"), (600, "timeout")])
def test_force_flush_waits_for_scores_within_its_time(latency: float, told: str) -> None:
    world = World(latency=latency)
    world.request()
    world.provider.force_flush(120_000 if told == "ok" else 100)
    (span,) = world.exported(due=1)
    assert attributes(span)[STATUS] == told
    world.evals.shutdown(0)


def test_a_span_that_outlives_its_evaluation_gets_the_scores_at_its_end() -> None:
    world = World(limits=SpanLimits(max_span_attributes=3))
    root, span = world.begun()
    world.evals.recorder.end(root)
    assert world.evals.flush(300)
    assert world.exported() == []
    span.end()
    (out,) = world.flushed()
    assert dict(attributes(out)) == {"their": "own", STATUS: "ok", "rag.eval.omitted": 10}
    world.evals.shutdown()


class _Raising(SpanProcessor):
    def on_end(self, span: ReadableSpan) -> None:
        raise OSError


def test_an_inner_processor_that_raises_is_counted_and_harms_no_other() -> None:
    world = World(processors=0)
    exporter = InMemorySpanExporter()
    for inner in (_Raising(), SimpleSpanProcessor(exporter)):
        world.provider.add_span_processor(RagEvalSpanProcessor(inner, world.evals))
    world.request(ours_first=False)
    assert world.evals.flush(300)
    assert [s.name for s in exporter.get_finished_spans() if s.name == "theirs"] == ["theirs"]
    assert world.evals.stats().incidents["span end: OSError"] >= 1
    world.evals.shutdown()


@pytest.mark.skipif(not hasattr(os, "fork"), reason="needs fork")
@pytest.mark.filterwarnings("ignore::DeprecationWarning")
def test_a_fork_exports_it_in_the_parent_only() -> None:
    world = World(latency=600)
    world.request()
    pid = os.fork()
    if pid == 0:
        # The child's copy of what the parent had exported before.
        world.exporters[0].clear()
        world.provider.force_flush()
        os._exit(len(world.exported()))
    assert os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1]) == 0
    world.provider.force_flush(100)
    (span,) = world.exported(due=1)
    assert attributes(span)[STATUS] == "fork"
    world.evals.shutdown(0)


def test_many_threads_lose_and_double_nothing(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(limits, "HELD_SPANS", 10_000)
    world = World(latency=0.01, processors=2, hold_timeout=PATIENCE)

    def work(ours_first: bool) -> None:
        for _ in range(25):
            world.request(ours_first=ours_first)

    threads = [threading.Thread(target=work, args=(n % 2 == 0,)) for n in range(8)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    for spans in (world.flushed(0), world.flushed(1)):
        assert len(spans) == len({span.context.span_id for span in spans}) == 200
        assert sum(SCORE in attributes(span) for span in spans) == 200
    world.evals.shutdown()
