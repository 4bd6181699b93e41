"""Attributes of model spans by the GenAI conventions, from real clients."""

from __future__ import annotations

import json
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
    def __init__(self, drawn: Variation) -> None:
        self.port = drawn.chance.randint(1024, 65535)
        self.host = f"{drawn.chance.choice(['llm', 'gateway'])}.example.com"
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
        about = {"id": "chatcmpl-7", "created": 1, "model": "gpt-x-2026"}
        said = {"role": "assistant", "content": PASSAGES[0]}
        choice = {"index": 0, "finish_reason": self.reason}
        if not json.loads(request.content).get("stream"):
            whole = {"object": "chat.completion", "choices": [{**choice, "message": said}]}
            return httpx.Response(200, json={**about, **whole})
        part = {"object": "chat.completion.chunk", "choices": [{**choice, "delta": said}]}
        text = f"data: {json.dumps({**about, **part})}\n\ndata: [DONE]\n\n"
        return httpx.Response(200, headers={"content-type": "text/event-stream"}, text=text)


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
    }
    # The client of LangChain tells no id of a streamed reply.
    streamed = {"gen_ai.request.stream": True}
    told |= streamed if way in STREAMED else {"gen_ai.response.id": "chatcmpl-7"}
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
