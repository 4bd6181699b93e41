"""The pipelines that are served: LangChain, LangGraph and LlamaIndex, with short waits."""

from __future__ import annotations

import asyncio
import operator
import re
import time
from collections.abc import AsyncIterator, Iterator, Mapping
from importlib import import_module
from importlib.util import find_spec
from typing import Annotated, Any, TypeAlias, TypedDict

from langchain_core.documents import Document
from langchain_core.language_models import BaseChatModel
from langchain_core.messages import AIMessageChunk
from langchain_core.output_parsers import StrOutputParser
from langchain_core.outputs import ChatGeneration, ChatGenerationChunk, ChatResult
from langchain_core.prompts import ChatPromptTemplate
from langchain_core.retrievers import BaseRetriever
from langchain_core.runnables import Runnable, RunnableConfig, RunnablePassthrough

from rag_eval_hooks import Sample

__all__ = ["HAS_GRAPHS", "HAS_LLAMA_INDEX", "Boom", "Graph", "chain_of", "query_engine"]

HAS_GRAPHS = find_spec("langgraph") is not None
HAS_LLAMA_INDEX = find_spec("llama_index") is not None
SEARCH_S, WORD_S = 0.002, 0.001
"""Seconds of what a request waits for; short, so that a delay of ours stands out."""
_NUMBER = re.compile(r"Question: (\d+) (\w+)")


class Boom(Exception):
    """What the application's own model raises."""


class Search(BaseRetriever):
    """The contexts of the sample that the question names by its number."""

    rows: list[Sample]

    def _get_relevant_documents(self, query: str, *, run_manager: Any) -> list[Document]:
        time.sleep(SEARCH_S)
        return self._found(query)

    async def _aget_relevant_documents(self, query: str, *, run_manager: Any) -> list[Document]:
        await asyncio.sleep(SEARCH_S)
        return self._found(query)

    def _found(self, query: str) -> list[Document]:
        contexts = self.rows[int(query.split()[0])].contexts or ()
        return [Document(page_content=context.text) for context in contexts]


class Model(BaseChatModel):
    """Says the answer of the sample that the question names, word by word; or fails.

    Attributes:
        rows: The samples.
        reached: Events by number, set where the model begins not to answer; by identity.
    """

    rows: list[Sample]
    reached: Any = None

    @property
    def _llm_type(self) -> str:
        return "soak"

    def _words(self, messages: Any) -> list[str]:
        number, manner = _asked(str(messages[-1].content))
        if manner == "fails":
            raise Boom
        words = (self.rows[number].answer or "").split(" ")
        return [" ".join(words[start : start + 8]) + " " for start in range(0, len(words), 8)]

    def _generate(self, messages: Any, *_: Any, **__: Any) -> ChatResult:
        words = self._words(messages)
        time.sleep(WORD_S * len(words))
        return _result(words)

    async def _agenerate(self, messages: Any, *_: Any, **__: Any) -> ChatResult:
        words = self._words(messages)
        number, manner = _asked(str(messages[-1].content))
        if manner == "waits":
            self.reached[number].set()
            await asyncio.sleep(3600)
        await asyncio.sleep(WORD_S * len(words))
        return _result(words)

    def _stream(self, messages: Any, *_: Any, **__: Any) -> Iterator[ChatGenerationChunk]:
        for word in self._words(messages):
            time.sleep(WORD_S)
            yield ChatGenerationChunk(message=AIMessageChunk(content=word))

    async def _astream(
        self, messages: Any, *_: Any, **__: Any
    ) -> AsyncIterator[ChatGenerationChunk]:
        for word in self._words(messages):
            await asyncio.sleep(WORD_S)
            yield ChatGenerationChunk(message=AIMessageChunk(content=word))


Reached: TypeAlias = Mapping[int, asyncio.Event]


def chain_of(batch: list[Sample], reached: Reached) -> Runnable[Any, str]:
    """A chain over these samples; a question is `<number> <manner> <text>`.

    Manners: `answers`, `fails`, and `waits`: the model sets the event of the number, and says
    nothing until it is cancelled.
    """
    inputs: Any = {
        "context": Search(rows=batch) | (lambda ds: "\n\n".join(d.page_content for d in ds)),
        "question": RunnablePassthrough(),
    }
    prompt = ChatPromptTemplate.from_template("Use:\n{context}\n\nQuestion: {question}")
    chain: Runnable[Any, str] = (
        inputs | prompt | Model(rows=batch, reached=reached) | StrOutputParser()
    )
    return chain


class State(TypedDict, total=False):
    """Of the graph."""

    question: str
    documents: Annotated[list[Document], operator.add]
    answer: str


class Graph:
    """A LangGraph graph that may ask somebody between retrieval and answer.

    Args:
        batch: Its samples.
    """

    def __init__(self, batch: list[Sample]) -> None:
        self._search, self._model = Search(rows=batch), Model(rows=batch)
        # By name: what LangGraph exports is not typed alike in all its versions.
        graph: Any = import_module("langgraph.graph")
        self._interrupt = import_module("langgraph.types").interrupt
        self._resume = import_module("langgraph.types").Command(resume=True)
        self._saver = import_module("langgraph.checkpoint.memory").MemorySaver()
        made = graph.StateGraph(State)
        names = ("retrieve", "approve", "generate")
        for name, node in zip(names, (self._retrieve, self._approve, self._answer), strict=True):
            made.add_node(name, node)
        for here, there in zip((graph.START, *names), (*names, graph.END), strict=True):
            made.add_edge(here, there)
        self._app = made.compile(checkpointer=self._saver)

    async def run(self, question: str, config: Mapping[str, Any], thread: str) -> None:
        """Asks, and goes on after an interrupt where the question says so."""
        told: Any = {**config, "configurable": {"thread_id": thread}}
        await self._app.ainvoke({"question": question}, told)
        if question.split()[1] == "resumes":
            await self._app.ainvoke(self._resume, told)
        # What it keeps of each conversation is the application's, and is not to grow here.
        self._saver.delete_thread(thread)

    async def _retrieve(self, state: State, config: RunnableConfig) -> State:
        return {"documents": await self._search.ainvoke(state["question"], config)}

    async def _approve(self, state: State) -> State:
        if state["question"].split()[1] in ("resumes", "stays"):
            self._interrupt("May I answer?")
        return {}

    async def _answer(self, state: State, config: RunnableConfig) -> State:
        texts = "\n\n".join(document.page_content for document in state["documents"])
        told = await self._model.ainvoke(f"{texts}\nQuestion: {state['question']}", config)
        return {"answer": str(told.content)}


def query_engine() -> Any:
    """A LlamaIndex query engine over a real index, whose answer names the question's number."""
    from tests.matrix.llama_index.kit import Scripted, index

    def reply(messages: Any) -> str:
        found = re.search(r"voyage (\d+)", " ".join(str(m.content) for m in messages))
        number = found[1] if found else ""
        return f"The ferry to Skarn leaves at 07:40 on voyage {number}. Dogs are welcome."

    return index().as_query_engine(llm=Scripted(reply=reply), similarity_top_k=2)


def _asked(prompt: str) -> tuple[int, str]:
    found = _NUMBER.search(prompt)
    assert found is not None
    return int(found[1]), found[2]


def _result(words: list[str]) -> ChatResult:
    message = AIMessageChunk(content="".join(words))
    return ChatResult(generations=[ChatGeneration(message=message)])
