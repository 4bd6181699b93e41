"""Platform sinks against back ends that are down, slow, broken, busy or late."""

from __future__ import annotations

import logging
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import replace
from typing import Any

import pytest

from rag_eval_hooks import RagEval, Sample
from rag_eval_hooks.config.settings import RagEvalConfig
from rag_eval_hooks.delivery.platforms.base import PlatformSink
from rag_eval_hooks.delivery.platforms.phoenix import PhoenixSink
from rag_eval_hooks.delivery.sink import RetryLater
from rag_eval_hooks.errors import ConfigError
from rag_eval_hooks.result import Evaluation
from rag_eval_hooks.score import AnnotatorKind, Score
from tests.servers.platform_server import Answer, PlatformServer, Request, well
from tests.support.delivery import PLATFORMS as SINKS
from tests.support.delivery import Dispatched

CLAIM = "The moon is made of cheese."
SAMPLE = Sample(question="q", trace_id="a" * 32, span_id="b" * 16)
SCORES = {
    "ragas.faithfulness": Score(
        value=0.25,
        normalized=0.25,
        annotator="openai:m",
        annotator_kind=AnnotatorKind.LLM,
        explanation={"claims": [{"claim": CLAIM, "supported": False, "reason": "in no chunk"}]},
    ),
    "lexical.exact_match": Score(value=1.0, normalized=1.0, label="True"),
}
EVALUATION = Evaluation(
    sample=SAMPLE,
    outcomes=SCORES,
    probability=1.0,
    start=1,
    end=2_000_000_000,
    verdicts={"ragas.faithfulness": False},
)
PATIENT: dict[str, Any] = {"SINK_SECONDS": 60.0, "SINK_QUEUE_CHARS": 10_000}
HASTY = {**PATIENT, "SINK_RETRY_SECONDS": 0.4}
Make = Callable[[str], PlatformSink]


class Opened(Dispatched):
    """A sink of an evaluator, with what was counted."""

    def __init__(self, sink: PlatformSink, limits: dict[str, Any] = PATIENT) -> None:
        super().__init__(sink, **limits, capture_content=True)
        self.sink = sink
        self.flush = self.dispatch.flush

    def deliver(self, times: int = 1, evaluation: Evaluation = EVALUATION) -> None:
        self.put(*[evaluation] * times)

    def balanced(self) -> bool:
        books = self.sink.books()
        return books["taken"] == books["sent"] + books["lost"] + books["waiting"]


@pytest.fixture(params=SINKS)
def make(request: pytest.FixtureRequest) -> Make:
    return SINKS[request.param]


@pytest.fixture
def open_sink() -> Iterator[Callable[..., Opened]]:
    opened: list[Opened] = []

    def make(sink: PlatformSink, limits: dict[str, Any] = PATIENT) -> Opened:
        opened.append(Opened(sink, limits))
        return opened[-1]

    yield make
    for one in opened:
        one.close()


@contextmanager
def hanging() -> Iterator[PlatformServer]:
    """A platform that answers nothing before the end."""
    end = threading.Event()

    def answer(request: Request) -> Answer:
        end.wait(120)
        return well(request)

    with PlatformServer(answer) as server:
        try:
            yield server
        finally:
            end.set()


def test_platform_that_fails_for_a_while_gets_every_score(
    make: Make, open_sink: Callable[..., Opened]
) -> None:
    """The same is sent again until it is taken; nothing is lost, and retries are counted."""
    failures = iter([500, 503, 429])

    def answer(request: Request) -> Answer:
        failed = next(failures, None)
        return well(request) if failed is None else Answer(failed, {"error": "busy"})

    with PlatformServer(answer) as server:
        one = open_sink(make(server.url))
        one.deliver()
        assert one.flush(300)
        one.deliver(2)
        assert one.flush(300)
    assert one.sink.books() == {"taken": 3, "sent": 3, "lost": 0, "waiting": 0, "no_span": 0}
    assert dict(one.incidents.counts()) == {
        f"sink {one.sink.name}, HTTP {status}: Retry": 1 for status in (500, 503, 429)
    }


LASTING = [
    ("phoenix", lambda _: Answer(500, {"error": "broken"}), "HTTP 500"),
    ("langfuse", lambda _: Answer(503, {"error": "broken"}), "HTTP 503"),
    ("mlflow", lambda request: replace(well(request), after=1.0), "ReadTimeout"),
    ("langfuse", None, "ConnectError"),
    ("mlflow", lambda _: Answer(401, {"error": "sk-secret"}), "HTTP 401"),
    ("mlflow", lambda _: Answer(404, {"error_code": "RESOURCE_DOES_NOT_EXIST"}), "no such span"),
    ("langfuse", lambda _: Answer(207, {"accepted": 1, "rejected": 1}), "some scores rejected"),
]


@pytest.mark.parametrize(("kind", "answer", "reason"), LASTING)
def test_platform_that_never_takes_a_score_counts_its_loss_with_the_cause(
    kind: str,
    answer: Callable[[Request], Answer] | None,
    reason: str,
    open_sink: Callable[..., Opened],
    caplog: pytest.LogCaptureFixture,
) -> None:
    """Given up in time; a wrong key at once. No key stands in logs, counts or texts."""
    caplog.set_level(logging.DEBUG, logger="rag_eval_hooks")
    with PlatformServer(answer or well) as server:
        url = server.url
        if answer is not None:
            one = open_sink(SINKS[kind](url), {**HASTY, "SINK_SECONDS": 0.3})
            one.deliver(2)
            assert one.flush(300)
            assert server.requests[0].headers["authorization"]
            assert reason not in ("HTTP 401", "some scores rejected") or len(server.requests) <= 2
    if answer is None:
        one = open_sink(SINKS[kind](url), HASTY)
        one.deliver(2)
        assert one.balanced()
        assert one.flush(300)
    assert one.sink.books()["lost"] == 2
    assert one.incidents.counts()[f"sink {one.sink.name}, {reason}: Lost"] == 2
    assert "sk-secret" not in caplog.text + repr(one.sink) + repr(one.incidents.counts())


def test_hanging_platform_bounds_memory_and_counts_every_loss(make: Make) -> None:
    """No more than the limit waits; the rest is refused. Closing counts what is left."""
    with hanging() as server:
        one = Opened(make(server.url), PATIENT)
        one.deliver(200)
        books = one.sink.books()
        assert 0 < books["waiting"] * 1000 <= 10_000
        assert books["lost"] == 200 - books["waiting"]
        assert one.balanced()
        one.close()
        one.deliver()
        assert one.sink.books()["lost"] == one.sink.books()["taken"] == 201
    assert one.incidents.counts() == {
        f"sink {one.sink.name}, outbox full: Lost": books["lost"],
        f"sink {one.sink.name}, shutdown: Lost": books["waiting"],
        f"sink {one.sink.name}, closed: Lost": 1,
    }


WAITS = {"7": 7.0, "0.5": 0.5, "-3": 0.0, "Wed, 21 Oct 2026 07:28:00 GMT": None, "soon": None}


@pytest.mark.parametrize("header", [None, *WAITS])
def test_pause_that_a_platform_asks_for_is_read(header: str | None) -> None:
    headers = () if header is None else (("Retry-After", header),)
    with PlatformServer(lambda _: Answer(429, {}, headers)) as server:
        sink = PhoenixSink(server.url)
        sink.open(60.0)
        with pytest.raises(RetryLater) as caught:
            sink.call("GET", "")
        sink.close()
    assert caught.value.wait == WAITS.get(header or "")


def test_phoenix_keeps_annotations_without_a_span() -> None:
    """In the end an annotation of an unknown span is handed to Phoenix, which keeps it."""

    def answer(request: Request) -> Answer:
        return Answer(404, {"detail": "no span"}) if "sync=true" in request.path else well(request)

    with PlatformServer(answer) as server:
        one = Opened(SINKS["phoenix"](server.url))
        one.deliver()
        one.close()
        assert server.requests[-1].path == "/v1/span_annotations?sync=false"
    assert one.sink.books()["sent"] == 1


def test_a_sample_without_a_span_has_no_place(open_sink: Callable[..., Opened]) -> None:
    with PlatformServer(well) as server:
        one = open_sink(SINKS["phoenix"](server.url))
        one.deliver(evaluation=replace(EVALUATION, sample=Sample(question="q")))
        assert one.flush(300)
        assert server.requests == []
    assert one.sink.books()["no_span"] == 1


@pytest.mark.parametrize("failures", [1, 1000])
def test_client_that_cannot_be_made_is_tried_again(
    failures: int, open_sink: Callable[..., Opened]
) -> None:
    tries = iter(range(failures))

    class Mine(PlatformSink):
        def open(self, timeout: float) -> None:
            if next(tries, None) is not None:
                raise OSError("no certificates")

        def send(self, payloads: Any, *, last: bool) -> dict[int, BaseException]:
            return {}

    one = open_sink(Mine("mine", "http://localhost"), HASTY)
    one.deliver(3)
    assert one.flush(300)
    lost = 0 if failures == 1 else 3
    assert (one.sink.books()["lost"], one.sink.books()["sent"]) == (lost, 3 - lost)
    assert one.incidents.counts().get("sink mine, OSError: Lost", 0) == lost


@pytest.mark.parametrize("kind", SINKS)
def test_platform_sink_after_failed_constructor_or_shutdown_is_usable_again(kind: str) -> None:
    """A notebook's cell that is run again builds a new RagEval around the same sink."""
    with PlatformServer(well) as server:
        sink = SINKS[kind](server.url)
        for wrong in ({"thresholds": {"ragas.nope": 1}}, {"spool": "/no/such/folder/spool"}):
            with pytest.raises(ConfigError):
                RagEval(["lexical"], sinks=[sink], config=RagEvalConfig(**wrong))
        for sent in (1, 1):
            with RagEval(["lexical.source_citation"], sinks=[sink]) as evals:
                with pytest.raises(ConfigError):
                    RagEval(["lexical"], sinks=sink)
                evals.submit(replace(SAMPLE, answer="see page 1"))
                assert evals.flush(300)
                assert sink.books()["sent"] == sent


def test_langfuse_request_matches_its_own_client(open_sink: Callable[..., Opened]) -> None:
    """Path, keys and fields of a score are those of the real client's `create_score`."""
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
        one = open_sink(SINKS["langfuse"](server.url))
        for _ in range(2):
            one.deliver()
            assert one.flush(300)
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


def test_settings_name_sinks_and_keys(monkeypatch: pytest.MonkeyPatch) -> None:
    with PlatformServer(well) as server:
        monkeypatch.setenv("RAG_EVAL_SINKS", f"phoenix:{server.url},langfuse:{server.url}")
        monkeypatch.setenv("RAG_EVAL_SINK_KEYS", "phoenix=one,langfuse=pk:two")
        with RagEval(metrics=["lexical.source_citation"]) as evals:
            evals.submit(replace(SAMPLE, answer="see page 1"))
            assert evals.flush(300)
        assert {request.headers["authorization"].split()[0] for request in server.requests} == {
            "Basic",
            "Bearer",
        }
