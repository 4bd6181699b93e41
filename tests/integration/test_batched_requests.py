"""Laws of embedding requests that several samples share, over real HTTP."""

from __future__ import annotations

import asyncio

import pytest

from rag_eval_hooks.errors import JudgeError
from rag_eval_hooks.judges.openai_embedder import OpenAIEmbedder
from tests.servers.faults import Fault, FaultKind
from tests.servers.judge_server import EMBEDDINGS, JudgeServer


async def test_samples_at_once_share_a_request() -> None:
    """Many callers at nearly the same time make one request, with each text in it once."""
    with JudgeServer() as server:
        embedder = OpenAIEmbedder(base_url=server.url, retries=0)
        found = await asyncio.gather(*(embedder.embed(["same", f"own {n}"]) for n in range(20)))
        await embedder.aclose()
        sent = [call.body["input"] for call in server.calls(EMBEDDINGS)]
    assert len(sent) == 1
    assert sorted(sent[0]) == sorted(["same", *(f"own {n}" for n in range(20))])
    assert len({tuple(shared) for shared, _ in found}) == 1
    assert len({tuple(own) for _, own in found}) > 1


async def test_a_malformed_reply_is_asked_again() -> None:
    """A reply without one vector per text is asked for again, as often as retries allow."""
    fault = Fault(kind=FaultKind.MISSING, calls=frozenset({1}))
    with JudgeServer(faults=[fault]) as server:
        embedder = OpenAIEmbedder(base_url=server.url, retries=1)
        vectors = await embedder.embed(["one text", "another text"])
        await embedder.aclose()
        assert len(server.calls(EMBEDDINGS)) == 2
    assert len(vectors) == 2


async def test_a_failure_reaches_all_who_share_the_request() -> None:
    """Every caller of a failed request gets a judge error, after one call."""
    with JudgeServer(faults=[Fault(kind=FaultKind.SERVER_ERROR)]) as server:
        embedder = OpenAIEmbedder(base_url=server.url, retries=0)
        found = await asyncio.gather(
            *(embedder.embed([f"text {n}"]) for n in range(3)), return_exceptions=True
        )
        await embedder.aclose()
        assert len(server.calls(EMBEDDINGS)) == 1
    assert all(isinstance(error, JudgeError) for error in found)


async def test_closing_leaves_no_task() -> None:
    """After closing, no request is under way and whoever waits is told."""
    with JudgeServer(faults=[Fault(kind=FaultKind.HANG)]) as server:
        embedder = OpenAIEmbedder(base_url=server.url, retries=0)
        before = asyncio.all_tasks()
        caller = asyncio.create_task(embedder.embed(["text"]))
        async with asyncio.timeout(120):
            while not server.calls(EMBEDDINGS):
                await asyncio.sleep(0.01)
        await embedder.aclose()
        with pytest.raises(JudgeError, match="closed"):
            await caller
        assert asyncio.all_tasks() == before
