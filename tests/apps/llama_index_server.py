"""Agents behind llama-index-server, asked over HTTP as its page does."""

from __future__ import annotations

import os
import tempfile
from collections.abc import Callable
from typing import Any

from llama_index.core import Settings
from llama_index.core.agent.workflow import FunctionAgent
from llama_index.server import LlamaIndexServer, UIConfig
from llama_index.server.tools.index import get_query_engine_tool
from starlette.testclient import TestClient

from tests.apps.case import Case
from tests.apps.llama_index_kit import app, best, model, over
from tests.apps.texts import Texts
from tests.matrix.llama_index.kit import in_turn, pick
from tests.matrix.shape import Shape


def served(agent: Callable[[], Any], question: str, answer: str) -> None:
    """Ask a server that makes an agent for each request."""
    before = os.getcwd()
    with tempfile.TemporaryDirectory() as folder:
        os.chdir(folder)  # it makes folders for data and results
        try:
            server = LlamaIndexServer(
                workflow_factory=agent,
                suggest_next_questions=False,
                ui_config=UIConfig(enabled=False),
            )
            message = {"role": "user", "content": question}
            with TestClient(server) as client:
                reply = client.post("/api/chat", json={"id": "one", "messages": [message]})
        finally:
            os.chdir(before)
    assert reply.status_code == 200, reply.text
    assert all(word in reply.text for word in answer.split()), reply.text


def cited(texts: Texts) -> Case:
    """The agent of its template, over an engine that cites."""
    question, answer = texts.question(0), texts.answer(0)
    query = f"the {texts.names[0]}"

    def agent() -> FunctionAgent:
        Settings.llm = model(default=texts.answer(0))
        tool = get_query_engine_tool(index=over(texts), similarity_top_k=2)
        calls = pick(str(tool.metadata.name), input=query)
        return FunctionAgent(tools=[tool], llm=in_turn(answer, calls))

    def ask(_: object) -> None:
        served(agent, question, answer)

    return Case(question=question, contexts=best(texts, query), answer=answer, ask=ask)


def shapes(seed: int) -> list[Shape]:
    group = "servers of LlamaIndex"
    return [
        app(group, "llama-index-server, engine that cites", cited, seed, ("http",)),
    ]
