"""Many requests to either framework at once, a part of which is cancelled at random."""

from __future__ import annotations

import asyncio
import contextlib
import gc
from collections.abc import Awaitable, Callable, Sequence
from dataclasses import dataclass
from functools import partial
from typing import Any

import pytest
from langchain_core.documents import Document
from langchain_core.messages import BaseMessage
from langchain_core.output_parsers import StrOutputParser
from langchain_core.prompts import ChatPromptTemplate
from langchain_core.retrievers import BaseRetriever
from langchain_core.runnables import RunnablePassthrough
from langchain_core.tools import create_retriever_tool
from llama_index.core.agent.workflow import FunctionAgent
from llama_index.core.instrumentation.dispatcher import instrument_tags

from rag_eval_hooks import Status
from rag_eval_hooks_langchain import RagEvalCallbackHandler
from tests.matrix.langchain.agents import pick as pick_tool
from tests.matrix.langchain.compat import AGENTS_MISSING, agent
from tests.matrix.langchain.kit import Chat, joined, prompt_text
from tests.matrix.llama_index.agents import name_of
from tests.matrix.llama_index.fixtures import opened, samples
from tests.matrix.llama_index.kit import Corpus, Draw, Scripted, in_turn, pick, says
from tests.matrix.world import World
from tests.support.size import size
from tests.support.variation import Variation, run_seed

pytestmark = pytest.mark.filterwarnings("ignore::DeprecationWarning")
COUNT = size(42, 500)


@dataclass
class Asked:
    question: str
    documents: Sequence[str]
    answer: str
    # Without a status it is no sample.
    status: Status | None = Status.OK
    ask: Callable[[], Awaitable[None]] | None = None


# LangChain: one of each kind of pipeline, shared by all requests.


class Finding(BaseRetriever):
    known: dict[str, Asked]

    def _get_relevant_documents(self, query: str, *, run_manager: Any) -> list[Document]:
        return [Document(text) for text in self.known[query].documents]

    async def _aget_relevant_documents(self, query: str, *, run_manager: Any) -> list[Document]:
        await asyncio.sleep(0.001 * (len(query) % 7))
        return self._get_relevant_documents(query, run_manager=run_manager)


def pipelines(known: dict[str, Asked]) -> dict[str, Any]:
    finding = Finding(known=known)

    def of(messages: Sequence[BaseMessage]) -> Asked:
        prompt = prompt_text(messages)
        return next(one for question, one in known.items() if question in prompt)

    def acts(messages: list[BaseMessage]) -> Any:
        one = of(messages)
        return one.answer if messages[-1].type == "tool" else pick_tool(("look", one.question))

    model = Chat(reply=lambda messages: of(messages).answer, delay=0.002)
    prompt = ChatPromptTemplate.from_template("Use {context}\n\nQuestion: {question}")
    inputs: Any = {"context": finding | joined, "question": RunnablePassthrough()}
    look = create_retriever_tool(finding, "look", "Looks.")
    return {
        "chain": inputs | prompt | model | StrOutputParser(),
        "agent": agent(Chat(reply=acts, delay=0.002), [look]),
        "model": model,
    }


async def call(chain: Any, way: str, given: Any, config: Any) -> None:
    if way == "in a thread":
        await asyncio.to_thread(chain.invoke, given, config)
    elif way.startswith("astream"):
        more = {"version": "v2"} if way == "astream_events" else {}
        async for _ in getattr(chain, way)(given, config, **more):
            pass
    else:
        await getattr(chain, way)([given] if way == "abatch" else given, config)


LANGCHAIN = (
    *(("chain", way) for way in ("ainvoke", "astream", "abatch", "astream_events", "in a thread")),
    *(("agent", "ainvoke"), ("agent", "astream"), ("model", "ainvoke")),
)


def langchain(world: World) -> list[Asked]:
    drawn, handler = Variation(run_seed()), RagEvalCallbackHandler(world.evals)
    many = [
        Asked(f"{n}. {drawn.question()}", drawn.passages(1 + n % 4), drawn.sentence())
        for n in range(COUNT)
    ]
    made = pipelines({one.question: one for one in many})
    for number, one in enumerate(many):
        kind, way = LANGCHAIN[number % len(LANGCHAIN)]
        given = {"messages": [("user", one.question)]} if kind == "agent" else one.question
        config = {"callbacks": [handler], "metadata": {"session_id": one.question}}
        one.ask = partial(call, made[kind], way, given, config)
        one.status = None if kind == "model" else Status.OK
    return many


# LlamaIndex: each request has passages and pipelines of its own.


def failing(messages: Any) -> str:
    raise ConnectionError


async def read(response: Any, kind: str) -> None:
    tokens = response.async_response_gen()
    if kind == "part":
        await anext(tokens)
        await tokens.aclose()
        await response.response_gen.aclose()
    elif kind == "stream":
        async for _ in tokens:
            pass


async def ask(corpus: Corpus, kind: str, question: str, answer: str) -> None:
    model = says(answer, delay=0.001)
    if kind in ("plain", "fails"):
        asked = Scripted(reply=failing, delay=0.001) if kind == "fails" else model
        await corpus.engine(asked).aquery(question)
    elif kind == "agent":
        looks = corpus.tool()
        acts = in_turn(answer, pick(name_of(looks), input=question), delay=0.01)
        await FunctionAgent(tools=[looks], llm=acts, streaming=False).run(user_msg=question)
    else:
        await read(await corpus.engine(model, streaming=True).aquery(question), kind)


DUE = {
    **dict.fromkeys(("plain", "agent", "stream"), Status.OK),
    **{"fails": Status.ERROR, "part": Status.CLOSED, "dropped": Status.CLOSED},
}


def llama_index(world: World) -> list[Asked]:
    many = []
    for number in range(COUNT):
        kind = list(DUE)[number % len(DUE)]
        corpus = Corpus(Draw(number, "aquery", world))
        question, answer = f"{number}. {corpus.question}", f"This is the answer to {number}."

        async def asks(*told: Any, question: str = question) -> None:
            with instrument_tags({"session_id": question}), contextlib.suppress(ConnectionError):
                await ask(*told)

        told = partial(asks, corpus, kind, question, answer)
        many.append(Asked(question, corpus.shown(question), answer, DUE[kind], told))
    return many


MANY: dict[str, Callable[[World], list[Asked]]] = {
    **({} if AGENTS_MISSING else {"langchain": langchain}),
    "llama_index": llama_index,
}


@pytest.mark.parametrize("share", size([0.3], [0.0, 0.3]), ids="{:.0%} cancelled".format)
@pytest.mark.parametrize("framework", MANY)
def test_requests_at_once_are_not_mixed_lost_doubled_or_left_open(
    framework: str, share: float
) -> None:
    chance = Variation(run_seed()).chance
    with opened(enabled=framework == "llama_index", SINK_SECONDS=60) as world:
        many = MANY[framework](world)
        offered = world.evals.stats().offered
        cut = set(chance.sample(range(COUNT), round(share * COUNT)))

        async def begin(number: int, one: Asked) -> None:
            assert one.ask is not None
            task = asyncio.ensure_future(one.ask())
            if number in cut:
                await asyncio.sleep(chance.random() * COUNT / 200)
                task.cancel()
            with contextlib.suppress(asyncio.CancelledError):
                await task

        async def all_at_once() -> None:
            await asyncio.gather(*(begin(*each) for each in enumerate(many)))

        asyncio.run(all_at_once())
        gc.collect()
        found = {sample.question: sample for sample in samples(world)}
        whole = [one for n, one in enumerate(many) if n not in cut and one.status is not None]
        known = {one.question: one for one in many}
        assert {one.question for one in whole} <= found.keys() <= known.keys()
        for sample in found.values():
            due, texts = known[sample.question], [c.text for c in sample.contexts or ()]
            assert sample.session_id == due.question
            assert sorted(texts) in (sorted(due.documents), [])
            if sample.status is Status.OK:
                assert (sample.answer, sorted(texts)) == (due.answer, sorted(due.documents))
        assert all(found[one.question].status is one.status for one in whole)
        # What is left is noticed by the next look at the statistics.
        stats = world.evals.stats()
        assert world.evals.recorder.opened() == (0, 0)
        assert (stats.incidents, stats.offered - offered) == ({}, len(samples(world)))
        assert len(samples(world)) == len(found)
