"""Laws of the dispatcher: a result or sink that fails, hangs or is refused affects no other."""

from __future__ import annotations

import asyncio
import functools
import tempfile
import threading
import time
from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, invariant, precondition, rule

from rag_eval_hooks import backoff
from rag_eval_hooks.delivery import outbox
from rag_eval_hooks.delivery.platforms.base import PlatformSink
from rag_eval_hooks.delivery.platforms.phoenix import PhoenixSink
from rag_eval_hooks.delivery.sink import Rejected, RetryLater, SendError, SpanUnknown
from rag_eval_hooks.feedback import Feedback
from rag_eval_hooks.result import Evaluation
from rag_eval_hooks.sample import Sample
from rag_eval_hooks.score import Score
from tests.servers.platform_server import Answer, PlatformServer, Request
from tests.support.delivery import Dispatched
from tests.support.size import size
from tests.waiting import until

LIMITS: dict[str, Any] = {"SINK_SECONDS": 60.0}


def evaluation(number: int, chars: int = 1) -> Evaluation:
    sample = Sample(
        question="q" * chars,
        sample_id=f"s{number}",
        trace_id=f"{number + 1:032x}",
        span_id=f"{number + 1:016x}",
    )
    outcomes = {"own.metric": Score(value=0.5, normalized=0.5)}
    return Evaluation(sample=sample, outcomes=outcomes, probability=1.0, start=1, end=2)


class Opened(Dispatched):
    """A dispatcher of results by number."""

    def number(self, *numbers: int, chars: int = 1) -> None:
        self.put(*(evaluation(number, chars) for number in numbers))


@pytest.fixture
def begin() -> Iterator[Callable[..., Opened]]:
    opened: list[Opened] = []

    def make(*sinks: Any, **how: Any) -> Opened:
        opened.append(Opened(*sinks, **{**LIMITS, **how}))
        return opened[-1]

    yield make
    for one in opened:
        one.close()


class Scripted(PlatformSink):
    """A platform whose answer to each request is a function of its span ids."""

    def __init__(self, answer: Callable[[Sequence[str]], None], batch_size: int = 64) -> None:
        super().__init__("scripted", "http://localhost")
        self.answer, self.batch_size = answer, batch_size
        self.taken: Counter[str] = Counter()
        self.sizes: list[int] = []

    def send(self, payloads: Sequence[Evaluation], *, last: bool) -> Mapping[int, SendError]:
        spans = [str(int(one.sample.span_id or "", 16) - 1) for one in payloads]
        self.sizes.append(len(spans))
        self.answer(spans)
        self.taken.update(spans)
        return {}


FAILURES: dict[str, BaseException] = {
    "later": RetryLater("HTTP 500"),
    "unknown": SpanUnknown(),
    "reject": Rejected("HTTP 422", is_for_all=False),
    "raise": KeyError("client"),
}


class Deliveries(RuleBasedStateMachine):
    """Results of a process, or of several in turn that share a spool, for a fickle platform.

    Each result is sent once, or its loss is counted, whatever its requests met before.
    """

    @initialize(batch_size=st.sampled_from([1, 3, 64]), is_durable=st.booleans())
    def start(self, batch_size: int, is_durable: bool) -> None:
        self.patch = pytest.MonkeyPatch()
        self.patch.setattr(backoff, "_FIRST", 0.002)
        self.patch.setattr(outbox, "_POLL_S", 0.05)
        self.folder = tempfile.TemporaryDirectory()
        self.spool = Path(self.folder.name) / "spool" if is_durable else None
        self.batch_size = batch_size
        self.number = 0
        # What the platform answers to a request with the result, until it passes.
        self.fates: dict[str, list[str]] = {}
        self.taken: Counter[str] = Counter()
        self.lost = 0
        self.open()

    def open(self) -> None:
        self.sink = Scripted(self.answer, self.batch_size)
        self.sink.taken = self.taken
        self.one = Opened(self.sink, folder=self.spool)

    def answer(self, spans: Sequence[str]) -> None:
        for span in spans:
            if self.fates[span]:
                name = self.fates[span][0]
                # A bad result stays bad; other failures pass.
                del self.fates[span][: name not in ("reject", "raise")]
                raise FAILURES[name]

    @rule(fates=st.lists(st.lists(st.sampled_from(sorted(FAILURES)), max_size=4), max_size=20))
    def put(self, fates: list[list[str]]) -> None:
        for fate in fates:
            self.fates[str(self.number)] = list(fate)
            self.number += 1
            self.one.number(self.number - 1)

    @rule()
    def flush(self) -> None:
        until(lambda: self.one.dispatch.flush(300) and self.sink.books()["waiting"] == 0)

    @precondition(lambda self: self.spool is not None)
    @rule()
    def restart(self) -> None:
        self.one.close()
        self.lost += self.sink.books()["lost"]
        self.open()

    @invariant()
    def books_add_up(self) -> None:
        if hasattr(self, "one"):
            assert self.sink.books()["waiting"] >= 0

    def teardown(self) -> None:
        if not hasattr(self, "one"):
            return
        bad = {span for span, fate in self.fates.items() if {"reject", "raise"} & {*fate}}
        until(lambda: len(self.taken) == self.number - len(bad) and self._lost() == len(bad))
        assert set(self.taken.values()) <= {1}
        assert not bad & self.taken.keys()
        self.one.close()
        self.patch.undo()
        self.folder.cleanup()

    def _lost(self) -> int:
        return self.lost + self.sink.books()["lost"]


TestDeliveries = Deliveries.TestCase
TestDeliveries.settings = settings(
    max_examples=size(10, 60),
    stateful_step_count=8,
    deadline=None,
    derandomize=True,
    suppress_health_check=list(HealthCheck),
)


@pytest.mark.parametrize(
    ("failure", "batch_size"), [(SpanUnknown(), 64), (RetryLater("HTTP 500"), 1)]
)
def test_result_that_waits_for_a_retry_delays_no_other(
    failure: SendError, batch_size: int, begin: Callable[..., Opened]
) -> None:
    is_well = threading.Event()

    def answer(spans: Sequence[str]) -> None:
        if "0" in spans and not is_well.is_set():
            raise failure

    sink = Scripted(answer, batch_size)
    one = begin(sink)
    one.number(*range(100))
    until(lambda: len(sink.taken) == 99)
    until(lambda: sink.books()["waiting"] == 1)
    is_well.set()
    assert one.dispatch.flush(300)
    assert sink.books()["sent"] == 100


def test_a_sink_that_is_down_is_probed_by_one_result_at_a_time(
    begin: Callable[..., Opened],
) -> None:
    is_well = threading.Event()

    def answer(spans: Sequence[str]) -> None:
        if not is_well.is_set():
            raise RetryLater("ConnectError")

    sink = Scripted(answer)
    one = begin(sink)
    one.number(*range(500))
    until(lambda: sink.sizes[-3:] == [1, 1, 1])
    is_well.set()
    assert one.dispatch.flush(300)
    assert sink.books()["sent"] == 500
    assert set(sink.taken.values()) == {1}


def test_phoenix_sends_known_spans_and_waits_for_others(
    begin: Callable[..., Opened],
) -> None:
    """Phoenix refuses a request with an unknown span and names it: the others are sent at once."""
    unknown = f"{4:016x}"
    is_there = threading.Event()

    def answer(request: Request) -> Answer:
        spans = {one["span_id"] for one in request.body["data"]}
        if unknown in spans and not is_there.is_set():
            return Answer(404, {"detail": f"Spans with IDs {unknown} do not exist."})
        taken.update(spans)
        return Answer(body={"data": []})

    taken: Counter[str] = Counter()
    with PlatformServer(answer) as server:
        one = begin(PhoenixSink(server.url))
        one.number(*range(20))
        until(lambda: len(taken) == 19)
        is_there.set()
        assert one.dispatch.flush(300)
    assert set(taken.values()) == {1}
    assert len(taken) == 20
    assert one.counts() == {}


@settings(max_examples=12, deadline=None, derandomize=True)
@given(
    seconds=st.lists(st.sampled_from([0.0, 0.05, 0.3]), min_size=1, max_size=4),
    is_async=st.booleans(),
)
def test_flush_waits_for_stored_results_of_a_call_beyond_its_time_limit(
    seconds: list[float], is_async: bool
) -> None:
    """A slow call with a spool is no failure: `True` says that each result is delivered."""
    delivered: list[str] = []

    def slow(evaluation: Evaluation) -> None:
        time.sleep(seconds[len(delivered)])
        delivered.append(evaluation.sample.sample_id)

    async def slow_later(evaluation: Evaluation) -> None:
        slow(evaluation)

    with tempfile.TemporaryDirectory() as folder:
        sink = slow_later if is_async else slow
        one = Opened(sink, folder=Path(folder, "spool"), SINK_SECONDS=0.1)
        one.number(*range(len(seconds)))
        assert one.dispatch.flush(300)
        assert delivered == [f"s{number}" for number in range(len(seconds))]
        one.close()


class Store:
    """A sink that keeps what it gets."""

    def __init__(self) -> None:
        self.got: list[Any] = []
        self.closed = 0

    def deliver(self, evaluation: Evaluation) -> None:
        self.got.append(evaluation)

    def close(self) -> None:
        self.closed += 1


def test_a_sink_is_called_by_its_signature(begin: Callable[..., Opened]) -> None:
    """One argument is the evaluation, two are sample and outcomes; both forms go on working."""
    got: dict[str, list[Any]] = {"one": [], "two": [], "optional": [], "any": [], "append": []}
    store = Store()

    def one(evaluation: Evaluation) -> None:
        got["one"].append(evaluation)

    def two(sample: Sample, outcomes: Any) -> None:
        got["two"].append((sample, outcomes))

    def optional(sample: Sample, outcomes: Any = None) -> None:
        got["optional"].append((sample, outcomes))

    def everything(*args: Any) -> None:
        got["any"].append(args)

    sinks = [one, functools.partial(two), optional, everything, got["append"].append]
    opened = begin(*sinks, store)
    result = evaluation(1)
    opened.put(result)
    assert opened.dispatch.flush(300)
    pair = (result.sample, result.outcomes)
    assert got == {
        "one": [result], "two": [pair], "optional": [pair], "any": [pair], "append": [result],
    }  # fmt: skip
    assert store.got == [result]
    assert opened.counts() == {}
    opened.close()
    until(lambda: store.closed == 1)


def test_a_sink_of_feedback_alone_is_not_called_for_samples(begin: Callable[..., Opened]) -> None:

    class Thumbs:
        def __init__(self) -> None:
            self.got: list[Feedback] = []

        async def feedback(self, feedback: Feedback) -> None:
            self.got.append(feedback)

        def close(self) -> None: ...

    thumbs, other = Thumbs(), Store()
    one = begin(thumbs, other)
    assert [job.consumer for job in one.dispatch.jobs(evaluation(1), 0.0)] == ["Store"]
    one.number(1)
    told = Feedback(score=1)
    one.dispatch.put_feedback(told)
    assert one.dispatch.flush(300)
    assert (thumbs.got, len(other.got)) == ([told], 1)
    assert one.counts() == {}


def test_sinks_of_one_kind_have_names_of_their_own(begin: Callable[..., Opened]) -> None:
    """The spool can tell them apart, in every process in which they have the same order."""
    one = begin(Store(), lambda e: None, Store(), lambda e: None)
    assert [job.consumer for job in one.dispatch.jobs(evaluation(1), 0.0)] == [
        "Store", "CallableSink", "Store#2", "CallableSink#2",
    ]  # fmt: skip


def test_a_sink_is_called_one_at_a_time_in_one_thread(begin: Callable[..., Opened]) -> None:
    threads: set[int] = set()
    flying: list[Any] = []

    async def sink(evaluation: Evaluation) -> None:
        threads.add(threading.get_ident())
        assert not flying
        flying.append(evaluation)
        await asyncio.sleep(0)
        flying.clear()

    one = begin(sink)
    with ThreadPoolExecutor(5) as callers:
        list(callers.map(one.number, range(100)))
    assert one.dispatch.flush(300)
    assert (len(threads), one.counts()) == (1, {})
