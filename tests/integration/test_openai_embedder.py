"""Laws of embedders: the OpenAI-compatible one over real HTTP, and the cache of vectors."""

from __future__ import annotations

import asyncio
import math
from array import array
from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager
from typing import Any

import pytest
from hypothesis import assume, given
from hypothesis import strategies as st

from rag_eval_hooks import NotScored, RagEval, RagEvalConfig, Sample
from rag_eval_hooks.errors import JudgeError, JudgeTimeout
from rag_eval_hooks.judges.base import Embedder
from rag_eval_hooks.judges.embeddings import Vector, VectorCache, embedded
from rag_eval_hooks.judges.endpoint import EndpointKeywords
from rag_eval_hooks.judges.openai import OpenAIJudge
from rag_eval_hooks.judges.openai_embedder import OpenAIEmbedder
from rag_eval_hooks.judges.prices import Prices
from rag_eval_hooks.score import Cause
from rag_eval_hooks.usage import Usage
from tests.servers.faults import Fault, FaultKind
from tests.servers.judge_server import EMBEDDINGS, JudgeServer
from tests.waiting import PATIENCE


@asynccontextmanager
async def embedder_at(server: JudgeServer, **options: Any) -> AsyncIterator[OpenAIEmbedder]:
    embedder = OpenAIEmbedder(base_url=server.url, retries=0, **options)
    try:
        yield embedder
    finally:
        await embedder.aclose()


async def test_vectors_come_in_the_order_of_the_texts() -> None:
    texts = ["an old lighthouse", "tulips", "the old lighthouse", ""]
    with JudgeServer() as server:
        async with embedder_at(server) as embedder:
            assert isinstance(embedder, Embedder)
            first, second, third, blank = await embedder.embed(texts)
            assert await embedder.embed(["tulips"]) == [second]
        call = server.calls(EMBEDDINGS)[0]
    assert math.dist(first, third) < math.dist(first, second)
    assert len(blank) == len(first)
    assert call.body["encoding_format"] == "float"
    assert "" not in call.body["input"]


async def test_many_texts_are_sent_in_parts() -> None:
    texts = [f"text number {n}" for n in range(300)]
    with JudgeServer() as server:
        async with embedder_at(server) as embedder:
            vectors = await embedder.embed(texts)
            assert len(server.calls(EMBEDDINGS)) == 3
        async with embedder_at(server) as fresh:
            assert await fresh.embed([texts[250]]) == [vectors[250]]


FAULTS = (
    FaultKind.RATE_LIMIT,
    FaultKind.SERVER_ERROR,
    FaultKind.DROP,
    FaultKind.CUT_BODY,
    FaultKind.HANG,
    FaultKind.EMPTY,
    FaultKind.MISSING,
    FaultKind.DOUBLED,
    FaultKind.RENUMBERED,
    FaultKind.WRONG_TYPES,
    FaultKind.OUT_OF_RANGE,
)


async def test_wrong_or_no_vectors_are_an_error() -> None:
    """Not exactly one vector per text, of numbers and of one length: no vectors at all."""
    for kind in FAULTS:
        hangs = kind is FaultKind.HANG
        with JudgeServer(faults=[Fault(kind=kind)]) as server:
            async with embedder_at(server, timeout=0.5 if hangs else PATIENCE) as embedder:
                with pytest.raises(JudgeTimeout if hangs else JudgeError):
                    await embedder.embed(["one text", "another text"])


@given(st.from_regex(r"[a-z]{1,12}_[a-z]{1,12}", fullmatch=True))
def test_openai_embedder_with_an_unknown_keyword_raises(keyword: str) -> None:
    options: dict[str, Any] = {keyword: 1}
    assume(keyword not in EndpointKeywords.__annotations__.keys() | {"cache_size"})
    with pytest.raises(TypeError, match=keyword):
        OpenAIEmbedder(base_url="http://localhost", **options)


async def test_every_token_is_charged_once() -> None:
    prices = Prices({"models": {"text-embedding-3-small": {"input": 1e6, "output": 0}}})
    with JudgeServer() as server:
        async with embedder_at(server, prices=prices) as embedder:
            results = await asyncio.gather(
                embedded(embedder, ["one", "two"]),
                embedded(embedder, ["two", "three, which is longer"]),
            )
            _vectors, again = await embedded(embedder, ["one"])
        counted = sum(len(call.body["input"]) for call in server.calls(EMBEDDINGS))
    spent = sum((used for _vectors, used in results), start=Usage())
    assert (spent.input_tokens, spent.cost) == pytest.approx((counted, counted))
    assert again == Usage()


def test_a_score_without_room_for_its_embeddings_is_over_budget() -> None:
    sample = Sample(question="Who kept it?", answer="An old lighthouse keeper kept it.")
    config = RagEvalConfig(budget={"calls_per_hour": 1})
    with JudgeServer() as server:
        judge = OpenAIJudge("m", base_url=server.url, api_key="k")
        embedder = OpenAIEmbedder(base_url=server.url, api_key="k")
        metrics = ["ragas.answer_relevancy"]
        with RagEval(metrics, judge, embedder=embedder, config=config) as evals:
            outcome = evals.evaluate(sample)["ragas.answer_relevancy"]
        assert not server.calls(EMBEDDINGS)
    assert isinstance(outcome, NotScored)
    assert outcome.cause is Cause.OVER_BUDGET


class Lengths:
    """Makes vectors of the lengths of texts, and notes the texts of each call."""

    def __init__(self) -> None:
        self.made: list[str] = []

    async def __call__(self, texts: Sequence[str]) -> list[Vector]:
        self.made += texts
        return [array("f", [1.0, len(text)]) for text in texts]


@given(st.integers(1, 4), st.lists(st.lists(st.sampled_from("abcdef"), max_size=6), max_size=8))
async def test_cache_gives_each_text_its_vector_and_stays_bounded(
    size: int, calls: list[list[str]]
) -> None:
    cache, make = VectorCache("lengths", size), Lengths()
    for texts in calls:
        before = len(make.made)
        vectors = await cache.embed([text * 2 for text in texts], make)
        assert vectors == [[1.0, 2.0]] * len(texts)
        assert len(cache) <= size
        new = make.made[before:]
        assert len(new) == len(set(new))


async def test_cache_refuses_vectors_of_different_lengths() -> None:
    async def make(texts: Sequence[str]) -> list[Vector]:
        return [array("f", [1.0] * len(text)) for text in texts]

    cache = VectorCache("odd", 2)
    with pytest.raises(JudgeError, match="different lengths"):
        await cache.embed(["a", "bb"], make)
    assert len(cache) == 0
