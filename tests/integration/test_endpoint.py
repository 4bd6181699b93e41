"""A call follows no redirect, reads no endless reply, and stays within the budget."""

from __future__ import annotations

import contextlib
import gzip
import json
import logging
import threading
from collections.abc import Callable, Iterator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any

import httpx
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from rag_eval_hooks.calls import Caller
from rag_eval_hooks.delivery.platforms.base import PlatformSink
from rag_eval_hooks.delivery.sink import Rejected
from rag_eval_hooks.errors import BudgetError
from rag_eval_hooks.incidents import Incidents
from rag_eval_hooks.judges.calls.budget import Budget
from rag_eval_hooks.judges.calls.context import Meter, Tally, in_call_context
from rag_eval_hooks.judges.endpoint import ClientOptions, Endpoint
from tests.support.size import size

Answer = Callable[[BaseHTTPRequestHandler], None]


@contextlib.contextmanager
def serving(answer: Answer) -> Iterator[tuple[str, list[bytes]]]:
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


def replying(status: int, body: bytes, **headers: str) -> Answer:
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
    sink = PlatformSink("platform", url, False)
    sink.open(5)
    try:
        return sink.call("POST", "/scores", json={})
    finally:
        sink.close()


@settings(max_examples=size(8, 30), deadline=None, suppress_health_check=list(HealthCheck))
@given(st.dictionaries(st.text(), st.text() | st.integers() | st.lists(st.text())))
async def test_post_of_any_document_sends_and_returns_it(document: dict[str, Any]) -> None:
    document = json.loads(json.dumps(document).encode("utf-8", "replace"))
    with serving(replying(200, json.dumps(document).encode())) as (url, bodies):
        assert await posted(url, document) == document
    assert json.loads(bodies[0]) == document


async def test_redirect_is_not_followed() -> None:
    for status in [301, 302, 303, 307, 308]:
        with serving(replying(200, b"{}")) as (elsewhere, received):
            location = {"location": f"{elsewhere}/chat/completions"}
            with serving(replying(status, b"", **location)) as (url, _), pytest.raises(Exception):  # noqa: B017, PT011
                await posted(url, {"secret": "x"}, retries=0)
        assert received == []


async def test_reply_without_an_end_is_refused() -> None:
    def endless(handler: BaseHTTPRequestHandler) -> None:
        handler.send_response(200)
        handler.end_headers()
        for _ in range(1000):
            handler.wfile.write(b" " * 100_000)

    with serving(endless) as (url, bodies), pytest.raises(ValueError, match="4,000,000"):
        await posted(url, {}, retries=1)
    # Clients before 3.0 try any failure again.
    assert len(bodies) <= 2


async def test_reply_that_unpacks_to_any_size_is_refused() -> None:
    for packings, encoding in [(1, "gzip"), (2, "gzip, gzip"), (0, "zstd"), (0, "br")]:
        body = b" " * 8_000_000 if packings else b"{}"
        for _ in range(packings):
            body = gzip.compress(body)
        with serving(replying(200, body, **{"content-encoding": encoding})) as (url, _):
            with pytest.raises(ValueError, match=r"longer than|unexpected encoding"):
                await posted(url, {}, retries=0)
            with pytest.raises(Rejected, match=r"longer than|unexpected encoding"):
                sent(url)


async def test_compressed_reply_is_read() -> None:
    with serving(replying(200, gzip.compress(b'{"a": 1}'), **{"content-encoding": "gzip"})) as (
        url,
        _,
    ):
        assert await posted(url, {}) == sent(url) == {"a": 1}


async def test_calls_of_ours_alone_log_no_line_for_each(caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level(logging.INFO)
    # Clients of platforms raise its level for the whole process.
    caplog.set_level(logging.INFO, logger="httpx")
    with serving(replying(200, b"{}")) as (url, _):
        await posted(url, {})
        sent(url)
        assert caplog.messages == []
        httpx.post(url, json={})
    assert len(caplog.messages) == 1


async def test_tries_of_the_client_are_within_the_budget() -> None:
    for limit in [1, 2, 3]:
        budget = Budget({"calls_per_hour": limit}, incidents=Incidents())
        tally = Tally()
        with serving(replying(500, b"{}")) as (url, bodies):
            with in_call_context(budget=budget, tally=tally), pytest.raises(BudgetError):
                await posted(url, {}, retries=5)
            assert len(bodies) == limit == tally.usage.calls == budget.spent()["hour"].calls
