"""Laws of judge, embedder and their calls over real HTTP: busy, slow, broken, dead and endless."""

from __future__ import annotations

import asyncio
import contextlib
import gzip
import json
import math
import threading
from collections.abc import AsyncIterator, Callable, Iterator, Mapping
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from rag_eval_hooks import NotScored, RagEval, RagEvalConfig, Sample, Score
from rag_eval_hooks.calls import Caller, Usage
from rag_eval_hooks.delivery.platforms.platform_sink import PlatformSink
from rag_eval_hooks.delivery.sink import Rejected
from rag_eval_hooks.errors import BudgetError, JudgeError, JudgeTimeout
from rag_eval_hooks.findings import Findings
from rag_eval_hooks.incidents import Incidents
from rag_eval_hooks.judges import Embedder, embedded, model_calls
from rag_eval_hooks.judges.budget import Budget
from rag_eval_hooks.judges.failures import DescribedError
from rag_eval_hooks.judges.memo import Memo
from rag_eval_hooks.judges.model_calls import Meter, Tally, in_call_context
from rag_eval_hooks.judges.openai import ClientOptions, Endpoint, OpenAIEmbedder, OpenAIJudge
from rag_eval_hooks.judges.prices import Prices
from rag_eval_hooks.score import Cause
from tests.support.servers.faults import Fault, FaultKind
from tests.support.servers.judge_server import EMBEDDINGS, JudgeServer
from tests.support.servers.samples import ONE, TRUTH, found, spent
from tests.support.size import size
from tests.waiting import PATIENCE

METRIC = "ragas.faithfulness"
NO_SHAPES: dict[str, Any] = {"json_schema": False, "tools": False, "json_object": False}


def judge_of(server: JudgeServer, **options: Any) -> OpenAIJudge:
    return OpenAIJudge("test-model", **{"base_url": server.url, "api_key": "key", **options})


async def verified(server: JudgeServer, times: int = 1, **options: Any) -> Findings:
    judge = judge_of(server, **options)
    try:
        for _ in range(times):
            findings = await ONE.by(judge)
        return findings
    finally:
        await judge.aclose()


@pytest.mark.parametrize(
    ("abilities", "formats", "temperatures"),
    [
        ({"api_key": "key"}, ["json_schema"] * 2, [True, True]),
        (NO_SHAPES, ["json_schema", "tool", "json_object", None, None], [True] * 5),
        ({"temperature": False}, ["json_schema"] * 3, [True, False, False]),
        ({"completions": lambda made: _in_parts(made)}, ["json_schema"] * 2, [True, True]),
    ],
)
async def test_what_an_endpoint_lacks_is_learned_once(
    abilities: dict[str, Any], formats: list[str | None], temperatures: list[bool]
) -> None:
    with JudgeServer(**abilities) as server:
        assert found(await verified(server, 2)) == TRUTH
        calls = server.calls()
    assert [call.format for call in calls] == formats
    assert ["temperature" in call.body for call in calls] == temperatures
    assert calls[0].body["temperature"] == 0.0
    assert calls[0].body["response_format"]["json_schema"]["strict"]


def _message(**fields: object) -> Callable[[dict[str, Any]], object]:
    def changed(made: dict[str, Any]) -> object:
        reason = fields.get("finish_reason", "stop")
        message = {**made["choices"][0]["message"], **fields}
        return {**made, "choices": [{"index": 0, "message": message, "finish_reason": reason}]}

    return changed


def _in_parts(made: dict[str, Any]) -> object:
    content = made["choices"][0]["message"]["content"]
    thought = {"type": "thinking", "thinking": [{"type": "text", "text": '{"relevance": []}'}]}
    texts = [{"type": "text", "text": part} for part in (content[:90], content[90:])]
    return _message(content=[thought, *texts], reasoning_content="So {it} is.")(made)


async def test_replies_that_are_no_verdicts_and_lasting_failures_are_told_by_their_cause() -> None:
    cases: list[tuple[dict[str, Any], str]] = [
        ({"api_key": "another-key"}, "HTTP 401"),
        ({"models": ["other"]}, "HTTP 404"),
    ]
    replies: list[tuple[Callable[[dict[str, Any]], object], str]] = [
        (_message(content=None, refusal="I cannot help."), "the reply was a refusal"),
        (_message(content=None, finish_reason="content_filter"), "a filter cut off the reply"),
        (_message(content="", finish_reason="length"), "reached the token limit before any text"),
        (_message(content=[{"type": "image_url"}]), "the reply was empty"),
        (_message(content="I cannot judge this."), "the reply has no JSON object"),
        (_message(content='{"answer_support": ['), "the reply was cut off"),
        (lambda made: {**made, "choices": []}, "the reply was empty"),
        (lambda _made: {"error": {"message": "down", "code": 502}}, "the reply was an error"),
        (lambda _made: "data: {}", "the reply was empty"),
    ]
    cases += [({"completions": completions}, words) for completions, words in replies]
    for abilities, words in cases:
        with JudgeServer(**abilities) as server:
            finding = (await verified(server)).answer_support
            assert "HTTP" not in words or len(server.calls()) == 1
        assert isinstance(finding, NotScored), words
        assert finding.cause is Cause.JUDGE_FAILED
        assert words in finding.detail
        assert "\n" not in finding.detail


async def test_no_call_is_lost_from_usage() -> None:
    cases: list[Any] = [
        ([Fault(kind=FaultKind.RATE_LIMIT, calls=frozenset({1}))], {}, {}, None),
        ([], {}, NO_SHAPES, None),
        ([Fault(kind=FaultKind.REFUSAL)], {}, {}, Cause.JUDGE_FAILED),
        ([Fault(kind=FaultKind.SERVER_ERROR)], {"retries": 1}, {}, Cause.JUDGE_FAILED),
        ([Fault(kind=FaultKind.HANG)], {"timeout": 0.5, "retries": 1}, {}, Cause.TIMEOUT),
    ]
    for faults, options, abilities, cause in cases:
        with JudgeServer(faults=faults, **abilities) as server:
            findings = await asyncio.wait_for(verified(server, **options), PATIENCE)
            assert spent(findings).calls == pytest.approx(len(server.calls())), faults
            assert len(server.calls()) > 1
        assert found(findings) == TRUTH if cause is None else {*found(findings).values()} == {cause}


def sample(number: int) -> Sample:
    return Sample(
        question=f"When was quay {number} opened?",
        contexts=("The quay opened in 1931. It has two berths.",),  # type: ignore[arg-type]
        answer=f"Quay {number} opened in 1931.",
    )


def test_a_dead_judge_costs_nothing_but_failed_and_is_asked_again_when_it_comes_back(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(model_calls, "MAX_FAILURES", 4)
    monkeypatch.setattr(model_calls, "FIRST_PAUSE", 2.0)
    with JudgeServer(faults=[Fault(kind=FaultKind.SERVER_ERROR)]) as server:
        judge = judge_of(server, concurrency=4, retries=0)
        evals = RagEval(METRIC, judge, embedder="none", queue_size=200)
        for number in range(100):
            assert evals.submit(sample(number))
        assert evals.flush(300)
        failed = evals.stats().failed
        assert failed[Cause.JUDGE_UNAVAILABLE] >= 90 - (calls := len(server.calls()))
        assert calls <= 12
        assert evals.stats().offered == 100 == sum(failed.values())
        server.faults.clear()
        for number in range(100, 400):
            threading.Event().wait(0.05)
            if isinstance(evals.evaluate(sample(number))[METRIC], Score):
                break
        assert isinstance(evals.evaluate(sample(500))[METRIC], Score)
        evals.shutdown(1)


def test_calls_cut_short_by_the_samples_time_are_paid_for() -> None:
    with JudgeServer(faults=[Fault(kind=FaultKind.HANG, calls=frozenset({2}))]) as server:
        judge = judge_of(server, memo=Memo())
        with RagEval(METRIC, judge, embedder="none", sample_timeout=5.0) as evals:
            outcome = evals.evaluate(sample(1))[METRIC]
    assert isinstance(outcome, NotScored)
    assert outcome.cause is Cause.TIMEOUT
    assert outcome.usage.calls == pytest.approx(2)
    assert outcome.usage.input_tokens > 0


@contextlib.asynccontextmanager
async def embedder_at(server: JudgeServer, **options: Any) -> AsyncIterator[OpenAIEmbedder]:
    embedder = OpenAIEmbedder(base_url=server.url, retries=0, **options)
    try:
        yield embedder
    finally:
        await embedder.aclose()


async def test_vectors_come_in_the_order_of_the_texts_and_many_texts_in_parts() -> None:
    texts = ["an old lighthouse", "tulips", "the old lighthouse", ""]
    many = [f"text number {n}" for n in range(300)]
    with JudgeServer() as server:
        async with embedder_at(server) as embedder:
            assert isinstance(embedder, Embedder)
            first, second, third, blank = await embedder.embed(texts)
            assert await embedder.embed(["tulips"]) == [second]
            call = server.calls(EMBEDDINGS)[0]
            vectors = await embedder.embed(many)
            assert len(server.calls(EMBEDDINGS)) == 5
        async with embedder_at(server) as fresh:
            assert await fresh.embed([many[250]]) == [vectors[250]]
    assert math.dist(first, third) < math.dist(first, second)
    assert len(blank) == len(first)
    assert call.body["encoding_format"] == "float"
    assert "" not in call.body["input"]


async def test_wrong_or_no_vectors_are_an_error() -> None:
    for kind in {*FaultKind} - {FaultKind.REFUSAL, FaultKind.LENGTH, FaultKind.ONLY_PROSE}:
        hangs = kind is FaultKind.HANG
        with JudgeServer(faults=[Fault(kind=kind)]) as server:
            async with embedder_at(server, timeout=0.5 if hangs else PATIENCE) as embedder:
                with pytest.raises(JudgeTimeout if hangs else JudgeError):
                    await embedder.embed(["one text", "another text"])


async def test_every_token_is_charged_once() -> None:
    prices = Prices({"models": {"text-embedding-3-small": {"input": 1e6, "output": 0}}})
    with JudgeServer() as server:
        async with embedder_at(server, prices=prices) as embedder:
            results = await asyncio.gather(
                embedded(embedder, ["one", "two"]),
                embedded(embedder, ["two", "three, which is longer"]),
            )
        counted = sum(len(call.body["input"]) for call in server.calls(EMBEDDINGS))
    used = sum((used for _vectors, used in results), start=Usage())
    assert (used.input_tokens, used.cost) == pytest.approx((counted, counted))


def test_a_score_without_room_for_its_embeddings_is_over_budget() -> None:
    metric, config = "ragas.answer_relevancy", RagEvalConfig(budget={"calls_per_hour": 1})
    with JudgeServer() as server:
        embedder = OpenAIEmbedder(base_url=server.url, api_key="k")
        with RagEval([metric], judge_of(server), embedder=embedder, config=config) as evals:
            outcome = evals.evaluate(question="Who kept it?", answer="An old keeper.")[metric]
        assert not server.calls(EMBEDDINGS)
    assert isinstance(outcome, NotScored)
    assert outcome.cause is Cause.OVER_BUDGET


Reply = Callable[[BaseHTTPRequestHandler], None]


@contextlib.contextmanager
def serving(answer: Reply) -> Iterator[tuple[str, list[bytes]]]:
    bodies: list[bytes] = []

    class Handler(BaseHTTPRequestHandler):
        def do_POST(self) -> None:
            bodies.append(self.rfile.read(int(self.headers["content-length"])))
            with contextlib.suppress(OSError):
                answer(self)

        def log_message(self, *_: Any) -> None:
            """Print nothing."""

    server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    threading.Thread(target=server.serve_forever, args=(0.01,), daemon=True).start()
    try:
        yield f"http://127.0.0.1:{server.server_port}/v1", bodies
    finally:
        server.shutdown()
        server.server_close()


def replying(status: int, body: bytes, **headers: str) -> Reply:
    def answer(handler: BaseHTTPRequestHandler) -> None:
        handler.send_response(status)
        usual = {"content-length": str(len(body)), "content-type": "application/json"}
        for name, value in {**usual, **headers}.items():
            handler.send_header(name, value)
        handler.end_headers()
        handler.wfile.write(body)

    return answer


async def posted(url: str, document: Any, **options: Any) -> Any:
    endpoint = Endpoint(ClientOptions(base_url=url, api_key="key", **options))
    try:
        return await endpoint.post("/chat/completions", document, Meter(Caller("m"), ()))
    finally:
        await endpoint.aclose()


def sent(url: str) -> Any:
    sink = PlatformSink("platform", url)
    sink.open(5)
    try:
        return sink.call("POST", "/scores", json={})
    finally:
        sink.close()


@settings(max_examples=size(8, 30), deadline=None, suppress_health_check=list(HealthCheck))
@given(st.dictionaries(st.text(), st.text() | st.integers() | st.lists(st.text())))
async def test_post_of_any_document_sends_and_returns_it(document: Mapping[str, Any]) -> None:
    document = json.loads(json.dumps(document).encode("utf-8", "replace"))
    with serving(replying(200, json.dumps(document).encode())) as (url, bodies):
        assert await posted(url, document) == document
    assert json.loads(bodies[0]) == document


async def test_redirect_is_not_followed() -> None:
    for status in (301, 307):
        with serving(replying(200, b"{}")) as (elsewhere, received):
            location = {"location": f"{elsewhere}/chat/completions"}
            with serving(replying(status, b"", **location)) as (url, _), pytest.raises(Exception):  # noqa: B017, PT011
                await posted(url, {"secret": "x"}, retries=0)
        assert received == []


async def test_reply_without_an_end_or_of_any_size_when_unpacked_is_refused() -> None:
    def endless(handler: BaseHTTPRequestHandler) -> None:
        handler.send_response(200)
        handler.end_headers()
        for _ in range(1000):
            handler.wfile.write(b" " * 100_000)

    with serving(endless) as (url, bodies), pytest.raises(DescribedError, match="4,000,000"):
        await posted(url, {}, retries=1)
    # Clients before 3.0 try any failure again.
    assert len(bodies) <= 2
    for packings, encoding in [(1, "gzip"), (2, "gzip, gzip"), (0, "br")]:
        body = b" " * 8_000_000 if packings else b"{}"
        for _ in range(packings):
            body = gzip.compress(body)
        with serving(replying(200, body, **{"content-encoding": encoding})) as (url, _):
            with pytest.raises(DescribedError, match=r"longer than|unexpected encoding"):
                await posted(url, {}, retries=0)
            with pytest.raises(Rejected, match=r"longer than|unexpected encoding"):
                sent(url)


async def test_tries_of_the_client_are_within_the_budget() -> None:
    for limit in (1, 3):
        budget, tally = Budget({"calls_per_hour": limit}, incidents=Incidents()), Tally()
        with serving(replying(500, b"{}")) as (url, bodies):
            with in_call_context(budget=budget, tally=tally), pytest.raises(BudgetError):
                await posted(url, {}, retries=5)
            assert len(bodies) == limit == tally.usage.calls
