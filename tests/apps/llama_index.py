"""Packs, postprocessors and a server of LlamaIndex, on a core that they can be installed with."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from llama_index.core import Document, Settings, VectorStoreIndex
from llama_index.core.agent.workflow import FunctionAgent
from llama_index.core.postprocessor import PIINodePostprocessor

from tests.apps.case import Apps, Case, Make, Texts
from tests.matrix.llama_index.kit import (
    CALL,
    WAYS,
    Bags,
    Scripted,
    in_turn,
    index_of,
    pick,
    prompt_text,
    says,
    traced,
)
from tests.matrix.world import World


def _call(asked: Case, world: World, way: str) -> None:
    ask = asked.ask or (lambda _: CALL[way](asked.chain, asked.given))
    traced(world, {}, [lambda: ask(None)])


APPS = Apps(_call)


@pytest.mark.parametrize(("make", "way"), APPS.cases)
def test_application_of_others_is_captured_right(
    make: Make, way: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)  # The server makes folders for data and results.
    APPS.check(make, way)


def over(texts: Texts) -> VectorStoreIndex:
    return index_of(tuple(texts.sheets))


def best(texts: Texts, question: str) -> list[str]:
    found = over(texts).as_retriever(similarity_top_k=2).retrieve(question)
    return [node.get_content() for node in found]


def case(texts: Texts, engine: Any, contexts: Any = None, **more: Any) -> Case:
    contexts = best(texts, texts.asked) if contexts is None else contexts
    return Case(engine, texts.asked, contexts, texts.answer, **more)


@APPS.app("PIINodePostprocessor", *WAYS)
def masked(texts: Texts) -> Case:
    first = best(texts, texts.asked)[0]
    hidden = first.replace(first[:8], "[PLACE_1]")
    engine = over(texts).as_query_engine(
        llm=says(texts.answer),
        similarity_top_k=1,
        node_postprocessors=[
            PIINodePostprocessor(llm=says(f'{hidden}\nOutput Mapping:\n{{"PLACE_1": "x"}}'))
        ],
    )
    return case(texts, engine, [hidden])


@APPS.app("llama-index-packs-auto-merging-retriever", *WAYS)
def auto_merging(texts: Texts) -> Case:
    from llama_index.packs.auto_merging_retriever import AutoMergingRetrieverPack

    prompts: list[str] = []

    def reply(messages: Any) -> str:
        prompts.append(prompt_text(messages))
        return texts.answer

    Settings.llm, Settings.embed_model = Scripted(reply=reply), Bags()
    pack = AutoMergingRetrieverPack([Document(text=sheet) for sheet in texts.sheets])
    engine: Any = pack.get_modules()["query_engine"]
    return case(texts, engine, lambda: texts.within(prompts[-1]))


@APPS.app("llama-index-server, engine that cites", "http")
def served(texts: Texts) -> Case:
    from llama_index.server import LlamaIndexServer, UIConfig
    from llama_index.server.tools.index import get_query_engine_tool
    from starlette.testclient import TestClient

    def agent() -> FunctionAgent:
        Settings.llm = says(texts.sentence())
        tool = get_query_engine_tool(index=over(texts), similarity_top_k=2)
        calls = pick(str(tool.metadata.name), input=texts.query)
        return FunctionAgent(tools=[tool], llm=in_turn(texts.answer, calls))

    def ask(_: object) -> None:
        server = LlamaIndexServer(
            workflow_factory=agent, suggest_next_questions=False, ui_config=UIConfig(enabled=False)
        )
        message = {"role": "user", "content": texts.asked}
        with TestClient(server) as client:
            reply = client.post("/api/chat", json={"id": "one", "messages": [message]})
        assert reply.status_code == 200, reply.text

    return case(texts, None, best(texts, texts.query), ask=ask)
