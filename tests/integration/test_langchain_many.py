"""Many requests to LangChain and LangGraph at once, a part of which is cancelled at random."""

from __future__ import annotations

import asyncio
import random
from collections.abc import Sequence
from typing import Any

import pytest
from langchain_core.documents import Document
from langchain_core.messages import AIMessage, BaseMessage
from langchain_core.output_parsers import StrOutputParser
from langchain_core.prompts import ChatPromptTemplate
from langchain_core.retrievers import BaseRetriever
from langchain_core.runnables import RunnablePassthrough
from langchain_core.tools import tool

from rag_eval_hooks import Status
from rag_eval_hooks_langchain import RagEvalCallbackHandler
from tests.matrix.langchain.compat import AGENTS_MISSING, GRAPHS_MISSING, agent
from tests.matrix.langchain.kit import Chat, prompt_text
from tests.matrix.world import World
from tests.support.hand_requests import Request, random_request
from tests.support.langchain_requests import line
from tests.support.size import size
from tests.support.variation import seeds

pytestmark = pytest.mark.skipif(bool(GRAPHS_MISSING or AGENTS_MISSING), reason="no agents")
COUNT, CANCELLED = size(100, 500), 0.3


class Finding(BaseRetriever):
    """Finds the documents of the request that is asked."""

    requests: dict[str, Request]

    def _get_relevant_documents(self, query: str, *, run_manager: Any) -> list[Document]:
        return [Document(text) for text in self.requests[query].documents]

    async def _aget_relevant_documents(self, query: str, *, run_manager: Any) -> list[Document]:
        await asyncio.sleep(0.001 * (len(query) % 7))
        return self._get_relevant_documents(query, run_manager=run_manager)


class Desk:
    """One of each kind of pipeline, shared by all requests.

    Args:
        requests: What is asked, found and said.
    """

    def __init__(self, requests: Sequence[Request]) -> None:
        known = {one.question: one for one in requests}
        self.finding = Finding(requests=known)

        def of(messages: Sequence[BaseMessage]) -> Request:
            prompt = prompt_text(messages)
            return next(one for question, one in known.items() if question in prompt)

        def acts(messages: list[BaseMessage]) -> Any:
            one = of(messages)
            if messages[-1].type == "tool":
                return one.answer
            call = {"name": "look", "args": {"query": one.question}, "id": one.question}
            return AIMessage("", tool_calls=[{**call, "type": "tool_call"}])

        self.model = Chat(reply=lambda messages: of(messages).answer, delay=0.002)
        self.chain = self._chain()
        self.agent = agent(Chat(reply=acts, delay=0.002), [self._tool()])
        self.graph = self._graph()

    def _chain(self) -> Any:
        prompt = ChatPromptTemplate.from_template("Use {context}\n\nQuestion: {question}")
        inputs: Any = {"context": self.finding | _joined, "question": RunnablePassthrough()}
        return inputs | prompt | self.model | StrOutputParser()

    def _tool(self) -> Any:
        finding = self.finding

        @tool(response_format="content_and_artifact")
        async def look(query: str) -> tuple[str, list[Document]]:
            """Look."""
            found = await finding.ainvoke(query)
            return _joined(found), found

        return look

    def _graph(self) -> Any:
        async def retrieve(state: dict[str, Any]) -> dict[str, Any]:
            return {**state, "found": await self.finding.ainvoke(state["asked"])}

        async def answer(state: dict[str, Any]) -> dict[str, Any]:
            prompt = f"Use {_joined(state['found'])}\n\nQuestion: {state['asked']}"
            return {**state, "said": (await self.model.ainvoke(prompt)).content}

        return line(dict, [retrieve, answer])


def _joined(documents: Sequence[Document]) -> str:
    return "\n".join(document.page_content for document in documents)


async def call(chain: Any, way: str, given: Any, config: Any) -> None:
    if way == "in a thread":
        await asyncio.to_thread(chain.invoke, given, config)
    elif way.startswith("astream"):
        more = {"version": "v2"} if way == "astream_events" else {}
        async for _ in getattr(chain, way)(given, config, **more):
            pass
    else:
        await getattr(chain, way)([given] if way == "abatch" else given, config)


KINDS = (
    *(("chain", way) for way in ("ainvoke", "astream", "abatch", "astream_events", "in a thread")),
    *(("agent", way) for way in ("ainvoke", "astream")),
    ("graph", "ainvoke"),
    ("model", "ainvoke"),
)


@pytest.mark.parametrize("seed", seeds(size(1, 3)))
def test_requests_at_once_are_never_mixed_however_many_are_cancelled(seed: int) -> None:
    """Each sample is of one request; what ended well is there, and nothing stays open."""
    world = World(SINK_SECONDS=60)
    handler = RagEvalCallbackHandler(world.evals)
    dice = random.Random(f"many {seed}")
    requests = [random_request(dice) for _ in range(COUNT)]
    desk = Desk(requests)
    finished: set[str] = set()

    async def ask(number: int, one: Request) -> None:
        kind, way = KINDS[number % len(KINDS)]
        given: Any = {
            "agent": {"messages": [("user", one.question)]},
            "graph": {"asked": one.question},
        }.get(kind, one.question)
        config = {"callbacks": [handler], "metadata": {"user_id": one.question}}
        await call(getattr(desk, kind), way, given, config)
        if kind != "model":
            finished.add(one.question)

    async def all_at_once() -> None:
        tasks = [asyncio.ensure_future(ask(n, one)) for n, one in enumerate(requests)]
        chosen = dice.sample(tasks, int(CANCELLED * COUNT))
        for task in chosen:
            await asyncio.sleep(dice.random() * 0.004)
            task.cancel()
        done = await asyncio.gather(*tasks, return_exceptions=True)
        assert all(one is None or isinstance(one, asyncio.CancelledError) for one in done)

    asyncio.run(all_at_once())
    samples = [seen.sample for seen in world.seen()]
    known = {one.question: one for one in requests}
    for sample in samples:
        due = known[sample.question]
        assert sample.user_id == due.question
        assert [context.text for context in sample.contexts or ()] in (list(due.documents), [])
        if sample.status is Status.OK:
            assert sample.answer == due.answer
            assert tuple(context.text for context in sample.contexts or ()) == due.documents
    well = [sample.question for sample in samples if sample.status is Status.OK]
    assert len(samples) == len({sample.question for sample in samples})
    assert finished <= set(well)
    # What is left is noticed by the next look at the statistics.
    stats = world.evals.stats()
    assert world.evals.recorder.opened() == (0, 0)
    assert (stats.incidents, stats.offered) == ({}, len(samples))
    world.close()
