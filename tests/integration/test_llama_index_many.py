"""Many requests to LlamaIndex at once."""

from __future__ import annotations

import asyncio
import contextlib
from typing import Any

import pytest
from llama_index.core.instrumentation.dispatcher import instrument_tags

from rag_eval_hooks import Status
from tests.matrix.llama_index.helpers import engine, samples
from tests.matrix.llama_index.kit import (
    Scripted,
)
from tests.matrix.world import World

pytest_plugins = ["tests.matrix.llama_index.fixtures"]
pytestmark = [
    pytest.mark.filterwarnings("ignore::DeprecationWarning"),
    pytest.mark.usefixtures("own_loop"),
]


async def _one(number: int, made: dict[str, Any]) -> str:
    """One of many requests; what becomes of it goes by its number."""
    question = f"Request {number}: at what time does the ferry to Skarn leave the quay?"
    kind = ("plain", "stream", "fails", "part", "dropped")[number % 5]
    with instrument_tags({"session_id": f"s-{number}"}):
        if kind == "fails":
            with contextlib.suppress(ConnectionError):
                await made["fails"].aquery(question)
        elif kind == "plain":
            await made["plain"].aquery(question)
        else:
            response = await made["stream"].aquery(question)
            await asyncio.sleep(0.001 * (number % 7))
            await _consume(response, kind)
    return kind


async def _consume(response: Any, kind: str) -> None:
    if kind == "stream":
        assert [token async for token in response.async_response_gen()]
    elif kind == "part":
        stream = response.async_response_gen()
        await anext(stream)
        await stream.aclose()
        await response.response_gen.aclose()


def test_many_at_once_do_not_mix(world: World) -> None:
    """Of 500 concurrent queries, with failures and dropped streams, none is mixed up or lost."""

    def numbered(messages: Any) -> str:
        prompt = "\n".join(message.content or "" for message in messages)
        number = prompt.rsplit("Request ", 1)[1].split(":")[0]
        return f"This is the answer to request {number}."

    def failing(messages: Any) -> str:
        raise ConnectionError

    made = {
        "plain": engine(llm=Scripted(reply=numbered, delay=0.001)),
        "stream": engine(llm=Scripted(reply=numbered, delay=0.001), streaming=True),
        "fails": engine(llm=Scripted(reply=failing, delay=0.001)),
    }

    async def all_at_once() -> list[str]:
        return list(await asyncio.gather(*(_one(number, made) for number in range(500))))

    kinds = asyncio.run(all_at_once())
    found = samples(world)
    assert len(found) == len(kinds) == 500
    due = {"plain": "ok", "stream": "ok", "fails": "error", "part": "closed", "dropped": "closed"}
    for sample in found:
        number = sample.question.split(":")[0].removeprefix("Request ")
        assert sample.session_id == f"s-{number}"
        assert sample.status == due[kinds[int(number)]]
        if sample.status is Status.OK:
            assert sample.answer == f"This is the answer to request {number}."
    assert not world.disorder({})
    stats = world.evals.stats()
    assert (stats.scored, stats.dropped) == (200, {"error": 100, "closed": 200})
