"""Attributes of model spans by the GenAI conventions, from real clients."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from typing import Any

import httpx
import pytest

from tests.matrix.langchain.kit import CHAIN_WAYS, PASSAGES, QUESTION, call
from tests.matrix.langchain.lcel import plain
from tests.matrix.world import World
from tests.support.langchain_requests import config
from tests.support.variation import Variation, seeds

pytest.importorskip("langchain_openai")
from langchain_openai import ChatOpenAI

STREAMED = ("stream", "astream", "astream_events")


class Provider:
    """Answers as an OpenAI endpoint does, streamed or not, under ids of its own."""

    def __init__(self, drawn: Variation) -> None:
        self.port = drawn.chance.randint(1024, 65535)
        self.host = f"{drawn.chance.choice(['llm', 'gateway'])}.example.com"
        self.id = f"chatcmpl-{drawn.chance.randrange(10**9)}"
        self.reason = drawn.chance.choice(["stop", "length", "content_filter"])
        self.temperature = drawn.chance.choice([0, 0.0, 0.25, 1.0])
        self.begins = drawn.chance.choice(["https://", "http://user:secret@"])

    def model(self) -> ChatOpenAI:
        transport = httpx.MockTransport(self.answer)
        return ChatOpenAI(
            model="gpt-x",
            base_url=f"{self.begins}{self.host}:{self.port}/v1",
            api_key="k",
            temperature=self.temperature,
            http_client=httpx.Client(transport=transport),
            http_async_client=httpx.AsyncClient(transport=transport),
        )

    def answer(self, request: httpx.Request) -> httpx.Response:
        if json.loads(request.content).get("stream"):
            return httpx.Response(
                200,
                headers={"content-type": "text/event-stream"},
                text="".join(f"data: {part}\n\n" for part in (*self._parts(), "[DONE]")),
            )
        choice = {"message": {"role": "assistant", "content": PASSAGES[0]}}
        return httpx.Response(200, json=self._body("chat.completion", choice, self.reason))

    def _parts(self) -> Iterator[str]:
        for text, reason in ((PASSAGES[0], None), ("", self.reason)):
            delta = {"delta": {"role": "assistant", "content": text}}
            yield json.dumps(self._body("chat.completion.chunk", delta, reason))

    def _body(self, kind: str, choice: Mapping[str, Any], reason: str | None) -> dict[str, Any]:
        choices = [{"index": 0, "finish_reason": reason, **choice}]
        return {
            "id": self.id,
            "object": kind,
            "created": 1,
            "model": "gpt-x-2026",
            "choices": choices,
        }


def spans(world: World, operation: str) -> list[dict[str, Any]]:
    world.evals.flush(300)
    found = world.exporter.get_finished_spans()
    return [dict(span.attributes or {}) for span in found if span.name.startswith(operation)]


@pytest.mark.parametrize("way", CHAIN_WAYS)
@pytest.mark.parametrize("seed", seeds(1))
def test_model_span_tells_the_same_by_every_way_of_calling(way: str, seed: int) -> None:
    provider, world = Provider(Variation(seed)), World(capture_content=False)
    call(way, plain(model=provider.model()), [QUESTION], config(world))
    (model,) = spans(world, "chat")
    told = {
        "gen_ai.operation.name": "chat",
        "openinference.span.kind": "LLM",
        "gen_ai.provider.name": "openai",
        "gen_ai.request.model": "gpt-x",
        "gen_ai.response.model": "gpt-x-2026",
        "server.address": provider.host,
        "server.port": provider.port,
        "gen_ai.request.temperature": float(provider.temperature),
        "gen_ai.response.finish_reasons": (provider.reason,),
        # The client of LangChain tells no id of a streamed reply.
        **(
            {"gen_ai.request.stream": True}
            if way in STREAMED
            else {"gen_ai.response.id": provider.id}
        ),
    }
    assert model == told
    world.close()


@pytest.mark.parametrize("seed", seeds(1))
def test_llama_index_tells_the_settings_of_a_call(seed: int, world: World) -> None:
    pytest.importorskip("llama_index.core")
    from llama_index.core.llms import ChatMessage, ChatResponse, MockLLM
    from llama_index.core.llms.callbacks import llm_chat_callback

    from rag_eval_hooks_llama_index import enable

    drawn = Variation(seed)
    reason, heat = drawn.chance.choice(["stop", "length"]), drawn.chance.choice([0, 0.5, 1])
    host, port = drawn.name().lower(), drawn.chance.randint(1, 65535)

    class Served(MockLLM):
        temperature: float = heat
        api_base: str = f"http://{host}:{port}/v1"

        @llm_chat_callback()
        def chat(self, messages: Any, **_: Any) -> ChatResponse:
            raw = {"id": "c-1", "choices": [{"finish_reason": reason}]}
            return ChatResponse(message=ChatMessage(role="assistant", content=PASSAGES[0]), raw=raw)

    registration = enable(world.evals)
    try:
        with world.evals.interaction(QUESTION) as it:
            it.contexts([PASSAGES[0]])
            Served(max_tokens=None).chat([ChatMessage(content=QUESTION)])
            list(MockLLM(max_tokens=3).stream_chat([ChatMessage(content=QUESTION)]))
    finally:
        registration.disable()
    served, streamed = spans(world, "chat")
    told = {k: v for k, v in served.items() if k.startswith(("server", "gen_ai.re"))}
    assert told == {
        "gen_ai.request.model": "unknown",
        "gen_ai.request.temperature": float(heat),
        "gen_ai.response.id": "c-1",
        "gen_ai.response.finish_reasons": (reason,),
        "server.address": host,
        "server.port": port,
    }
    assert streamed["gen_ai.request.stream"] is True
