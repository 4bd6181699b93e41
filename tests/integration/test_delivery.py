"""A result or sink that fails, hangs, is refused or late affects no other, and is counted."""

from __future__ import annotations

import asyncio
import functools
import logging
import tempfile
import threading
import time
from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from pathlib import Path
from typing import Any
from unittest.mock import Mock

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, precondition, rule

from rag_eval_hooks import RagEval, Sample
from rag_eval_hooks.config.settings import RagEvalConfig
from rag_eval_hooks.delivery import outbox, sink
from rag_eval_hooks.delivery.platforms.phoenix import PhoenixSink
from rag_eval_hooks.delivery.platforms.platform_sink import PlatformSink
from rag_eval_hooks.delivery.sink import Rejected, RetryLater, SendError, SpanUnknown
from rag_eval_hooks.errors import ConfigError
from rag_eval_hooks.feedback import Feedback
from rag_eval_hooks.result import Evaluation
from rag_eval_hooks.score import Score
from tests.support.delivery import PLATFORMS, Dispatched
from tests.support.servers.platform_server import Answer, PlatformServer, Request, well
from tests.support.size import fixed_machine
from tests.waiting import until

CLAIM = {"claim": "The moon is made of cheese.", "supported": False, "reason": "in no chunk"}
OUTCOMES = {
    "ragas.faithfulness": Score(value=0.25, normalized=0.25, explanation={"claims": [CLAIM]}),
    "lexical.exact_match": Score(value=1.0, normalized=1.0, label="True"),
}
HASTY = {"SINK_RETRY_SECONDS": 0.4}


def evaluation(number: int) -> Evaluation:
    ids: dict[str, Any] = {"trace_id": f"{number + 1:032x}", "span_id": f"{number + 1:016x}"}
    sample = Sample(question="q", sample_id=f"s{number}", **ids)
    return Evaluation(sample=sample, outcomes=OUTCOMES, probability=1.0, start=1, end=2)


class Opened(Dispatched):
    def number(self, *numbers: int) -> None:
        self.put(*map(evaluation, numbers))


@pytest.fixture
def begin() -> Iterator[Callable[..., Opened]]:
    opened: list[Opened] = []

    def make(*sinks: Any, **how: Any) -> Opened:
        opened.append(Opened(*sinks, **{"SINK_SECONDS": 60.0, "capture_content": True, **how}))
        return opened[-1]

    yield make
    for one in opened:
        one.close()


class Scripted(PlatformSink):
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
        self.patch.setattr(sink, "_FIRST_PAUSE", 0.002)
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
        self.one = Opened(self.sink, folder=self.spool, SINK_SECONDS=60.0)

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
        until(lambda: self.one.dispatch.flush(300) and not self.one.waiting())

    @precondition(lambda self: self.spool is not None)
    @rule()
    def restart(self) -> None:
        self.one.close()
        self.lost += self.one.lost()
        self.open()

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
        return self.lost + self.one.lost()


TestDeliveries = Deliveries.TestCase
TestDeliveries.settings = fixed_machine(10, 60, steps=8)


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
    until(lambda: len(sink.taken) == 99 and one.waiting() == 1)
    is_well.set()
    assert one.dispatch.flush(300)
    assert sink.taken.total() == 100


def test_a_sink_that_is_down_is_probed_by_one_result_at_a_time(
    begin: Callable[..., Opened],
) -> None:
    answer = Mock(side_effect=RetryLater("ConnectError"))
    one = begin(sink := Scripted(answer))
    one.number(*range(500))
    until(lambda: sink.sizes[-3:] == [1, 1, 1])
    assert one.capacity() == 0
    answer.side_effect = None
    assert one.dispatch.flush(300)
    assert [*sink.taken.values()] == [1] * 500
    assert one.capacity() > 1


def test_results_that_expire_while_their_sink_is_down_end_without_a_request_each(
    begin: Callable[..., Opened],
) -> None:
    sink = Scripted(Mock(side_effect=RetryLater("HTTP 500")))
    one = begin(sink, SINK_RETRY_SECONDS=1.0)
    one.number(*range(500))
    assert one.dispatch.flush(60)
    assert one.lost() == 500 > 10 * len(sink.sizes)


@settings(max_examples=12, deadline=None, derandomize=True)
@given(
    seconds=st.lists(st.sampled_from([0.0, 0.05, 0.3]), min_size=1, max_size=4),
    is_async=st.booleans(),
)
def test_flush_waits_for_stored_results_of_a_call_beyond_its_time_limit(
    seconds: list[float], is_async: bool
) -> None:
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
        told = f"sink {sink.__name__}: a call took more than 0.1 s"
        assert set(one.counts()) == ({told} if 0.3 in seconds else set())


def test_async_sink_is_cancelled_at_its_time_limit(begin: Callable[..., Opened]) -> None:
    async def slow(_evaluation: Evaluation) -> None:
        await asyncio.sleep(600)

    one = begin(slow, SINK_SECONDS=0.1)
    one.number(1)
    assert one.dispatch.flush(300)
    assert one.counts() == {"sink slow: a call took more than 0.1 s": 1}


class Store:
    def __init__(self) -> None:
        self.got: list[Any] = []
        self.closed = 0

    def deliver(self, evaluation: Evaluation) -> None:
        self.got.append(evaluation)

    def close(self) -> None:
        self.closed += 1


class Thumbs(Store):
    def deliver(self, evaluation: Evaluation) -> None:
        """Store only feedback."""

    async def feedback(self, feedback: Feedback) -> None:
        self.got.append(feedback)


def test_a_sink_is_called_by_its_signature(begin: Callable[..., Opened]) -> None:
    """One argument is the evaluation, two are sample and outcomes; feedback goes to its sinks.

    Sinks of one kind have names of their own, the same in every process with the same order.
    """
    got: dict[str, list[Any]] = {"one": [], "two": [], "any": []}
    store, thumbs = Store(), Thumbs()

    def one(evaluation: Evaluation) -> None:
        got["one"].append(evaluation)

    def two(sample: Sample, outcomes: Any = None) -> None:
        got["two"].append((sample, outcomes))

    def everything(*args: Any) -> None:
        got["any"].append(args)

    sinks = [one, functools.partial(two), everything]
    opened = begin(*sinks, store, thumbs, Store())
    result, told = evaluation(1), Feedback(score=1)
    names = ["CallableSink", "CallableSink#2", "CallableSink#3", "Store", "Thumbs", "Store#2"]
    assert opened.dispatch.sinks_of(result) == names
    opened.put(result)
    opened.dispatch.put_feedback(told)
    assert opened.dispatch.flush(300)
    pair = (result.sample, result.outcomes)
    assert got == {"one": [result], "two": [pair], "any": [pair]}
    assert (store.got, thumbs.got, opened.counts()) == ([result], [told], {})
    opened.close()
    until(lambda: store.closed == thumbs.closed == 1)


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


LASTING = [
    ("phoenix", lambda _: Answer(500, {"error": "broken"}), "HTTP 500"),
    ("mlflow", lambda request: replace(well(request), after=1.0), "ReadTimeout"),
    ("langfuse", None, "ConnectError"),
    ("mlflow", lambda _: Answer(401, {"error": "sk-secret"}), "HTTP 401"),
    ("mlflow", lambda _: Answer(404, {"error_code": "RESOURCE_DOES_NOT_EXIST"}), "span not found"),
    ("langfuse", lambda _: Answer(207, {"accepted": 1, "rejected": 1}), "some scores rejected"),
]


@pytest.mark.parametrize(("kind", "answer", "reason"), LASTING)
def test_platform_that_never_takes_a_score_counts_its_loss_with_the_cause(
    kind: str,
    answer: Callable[[Request], Answer] | None,
    reason: str,
    begin: Callable[..., Opened],
    caplog: pytest.LogCaptureFixture,
) -> None:
    caplog.set_level(logging.DEBUG, logger="rag_eval_hooks")
    server = PlatformServer(answer or well)
    one = begin(sink := PLATFORMS[kind](server.url), SINK_SECONDS=0.3, **HASTY)
    if answer is None:
        with server:
            pass
        one.number(1, 1)
        assert one.dispatch.flush(300)
    else:
        with server:
            one.number(1, 1)
            assert one.dispatch.flush(300)
        assert server.requests[0].headers["authorization"]
        assert reason not in ("HTTP 401", "some scores rejected") or len(server.requests) <= 2
    assert one.lost() == 2
    assert one.counts()[f"sink {sink.name}: results are lost ({reason})"] == 2
    assert "sk-secret" not in caplog.text + repr(sink) + repr(one.counts())


def test_hanging_platform_bounds_memory_and_counts_every_loss(begin: Callable[..., Opened]) -> None:
    end = threading.Event()
    chars = 1 + sum(500 + len(str(one.explanation)) for one in OUTCOMES.values())

    def answer(request: Request) -> Answer:
        end.wait(120)
        return well(request)

    with PlatformServer(answer) as server:
        one = begin(sink := PLATFORMS["langfuse"](server.url), SINK_QUEUE_CHARS=4 * chars)
        one.number(*[1] * 200)
        assert one.waiting() == 4
        one.close()
        one.number(1)
        end.set()
    assert one.counts() == {
        f"sink {sink.name}: results are lost (outbox full)": 196,
        f"sink {sink.name}: results are lost (shutdown)": 4,
        f"sink {sink.name}: results are lost (closed)": 1,
    }


def test_result_without_a_span_that_the_platform_knows_is_counted(
    begin: Callable[..., Opened],
) -> None:
    one = begin(Scripted(Mock(side_effect=SpanUnknown())))
    one.number(1)
    one.put(*(replace(evaluation(n), sample=Sample(question="q")) for n in (2, 3)))
    one.close()
    lost, unsent = (f"sink scripted: results are {how}" for how in ("lost", "not sent"))
    assert one.counts() == {f"{lost} (span not found)": 1, f"{unsent} (no recorded span)": 2}


def test_pause_that_a_platform_asks_for_is_read() -> None:
    waits = {"7": 7.0, "0.5": 0.5, "-3": 0.0, "Wed, 21 Oct 2026 07:28:00 GMT": None, "soon": None}
    headers = iter([*((("Retry-After", text),) for text in waits), ()])
    found = []
    with PlatformServer(lambda _: Answer(429, {}, next(headers))) as server:
        sink = PhoenixSink(server.url)
        sink.open(60.0)
        for _ in range(len(waits) + 1):
            with pytest.raises(RetryLater) as caught:
                sink.call("GET", "")
            found.append(caught.value.wait)
        sink.close()
    assert found == [*waits.values(), None]


def test_sink_that_asks_for_a_pause_is_left_alone_and_delays_no_other(
    begin: Callable[..., Opened],
) -> None:
    busy, other = Scripted(Mock(side_effect=RetryLater("HTTP 503", 60.0)), 1), Store()
    one = begin(busy, other)
    one.number(1)
    until(lambda: busy.sizes)
    one.number(2, 3)
    until(lambda: len(other.got) == 3)
    time.sleep(0.5)
    assert busy.sizes == [1]


def test_phoenix_sends_known_spans_and_the_others_in_the_end_without_a_span(
    begin: Callable[..., Opened],
) -> None:
    taken: dict[int, str] = {}

    def answer(request: Request) -> Answer:
        spans = {int(one["span_id"], 16) - 1 for one in request.body["data"]}
        if 3 in spans and "sync=true" in request.path:
            return Answer(404, {"detail": f"Spans with IDs {4:016x} do not exist."})
        taken.update(dict.fromkeys(spans, request.path))
        return Answer(body={"data": []})

    with PlatformServer(answer) as server:
        one = begin(PhoenixSink(server.url))
        one.number(*range(20))
        until(lambda: len(taken) == 19)
        one.close()
        assert taken[3] == "/v1/span_annotations?sync=false"
    assert (len(taken), one.counts()) == (20, {})


def test_client_that_cannot_be_made_is_tried_again(begin: Callable[..., Opened]) -> None:
    sink = Scripted(lambda _: None)
    sink.open = Mock(side_effect=[OSError("no certificates"), None])  # type: ignore[method-assign]
    one = begin(sink, **HASTY)
    one.number(1, 2, 3)
    one.put(replace(evaluation(4), sample=Sample(question="q")))
    assert one.dispatch.flush(300)
    assert (sink.taken.total(), one.lost(), one.waiting()) == (3, 0, 0)


@pytest.mark.parametrize("kind", PLATFORMS)
def test_platform_sink_after_failed_constructor_or_shutdown_is_usable_again(kind: str) -> None:
    page = Sample(question="q", answer="see page 1", trace_id="a" * 32, span_id="b" * 16)
    with PlatformServer(well) as server:
        sink = PLATFORMS[kind](server.url)
        for wrong in ({"thresholds": {"ragas.nope": 1}}, {"spool": "/no/such/folder/spool"}):
            with pytest.raises(ConfigError):
                RagEval(["lexical"], sinks=[sink], config=RagEvalConfig(**wrong))
        for _ in range(2):
            before = len(server.requests)
            with RagEval(["lexical.source_citation"], sinks=[sink]) as evals:
                evals.submit(page)
                assert evals.flush(300)
            assert len(server.requests) > before
            assert not evals.stats().incidents


def test_langfuse_request_matches_its_own_client(begin: Callable[..., Opened]) -> None:
    langfuse = pytest.importorskip("langfuse")
    with PlatformServer(well) as server:
        client = langfuse.Langfuse(
            public_key="pk",
            secret_key="sk-secret",
            base_url=server.url,
            tracer_provider=pytest.importorskip("opentelemetry.sdk.trace").TracerProvider(),
        )
        client.create_score(
            name="ragas.faithfulness",
            value=0.25,
            trace_id="a" * 32,
            observation_id="b" * 16,
            score_id="c" * 32,
            data_type="NUMERIC",
            comment="why",
            metadata={"identifier": "openai:m"},
        )
        client.flush()
        client.shutdown()
        (theirs,) = [request for request in server.requests if "scores" in request.path]
        one = begin(PLATFORMS["langfuse"](server.url))
        for _ in range(2):
            one.number(1)
            assert one.dispatch.flush(300)
        first, ours = server.requests[-2:]
    # Sent again, a score replaces itself.
    assert [score["id"] for score in first.body] == [score["id"] for score in ours.body]
    assert (ours.method, ours.path) == (theirs.method, theirs.path)
    for header in ("authorization", "x-langfuse-public-key", "content-type"):
        assert ours.headers[header] == theirs.headers[header]
    (model,), (faithful, exact) = theirs.body, ours.body
    assert faithful.keys() == model.keys() - {"environment"}
    assert exact.keys() == faithful.keys() - {"comment"}
    for key in exact.keys() - {"value", "metadata"}:
        assert isinstance(exact[key], type(model[key]))
