"""Applications of LlamaIndex's tutorials, in our own words, with names drawn by a seed."""

from __future__ import annotations

import json
from collections.abc import Callable, Sequence
from typing import Any

from llama_index.core import Document, SummaryIndex, VectorStoreIndex
from llama_index.core.base.llms.types import ChatMessage
from llama_index.core.chat_engine.types import ChatMode
from llama_index.core.node_parser import SentenceSplitter
from llama_index.core.query_engine import CitationQueryEngine, RouterQueryEngine
from llama_index.core.selectors import LLMSingleSelector
from llama_index.core.tools import QueryEngineTool
from pydantic import create_model

from tests.matrix.llama_index.kit import Bags, Scripted, pick, prompt_text
from tests.matrix.llama_index.tutorial_agents import AGENTS
from tests.matrix.llama_index.tutorial_workflows import WORKFLOWS
from tests.matrix.llama_index.variants import Corpus, Variant, answered, asking, says
from tests.support.variation import Variation

__all__ = ["TUTORIALS"]


def starter(draw: Variation) -> Variant:
    """Documents, an index, a query engine."""
    texts, question, answer = draw.passages(2), draw.question(), answered(draw)
    index = VectorStoreIndex.from_documents(
        [Document(text=text) for text in texts],
        embed_model=Bags(),
        transformations=[SentenceSplitter(tokenizer=str.split)],
    )
    found = index.as_retriever(similarity_top_k=2).retrieve(question)
    engine = index.as_query_engine(llm=says(answer), similarity_top_k=2)
    contexts = [node.get_content() for node in found]
    return Variant(asking(draw, engine, question), question, contexts, answer)


def router(draw: Variation) -> Variant:
    """A selector chooses between a summary index and a vector index."""
    corpus, question, answer = Corpus(draw, 3), draw.question(), answered(draw)
    summary = SummaryIndex(corpus.nodes).as_query_engine(llm=says(answer))
    engines = [summary, corpus.engine(says(answer))]
    chosen = draw.chance.randrange(2)
    tools = [
        QueryEngineTool.from_defaults(engine, name=draw.name(), description=draw.sentence())
        for engine in engines
    ]
    choice = json.dumps([{"choice": chosen + 1, "reason": draw.word()}])
    engine = RouterQueryEngine(
        selector=LLMSingleSelector.from_defaults(llm=says(choice)),
        query_engine_tools=tools,
        llm=says(answer),
    )
    corpus.question = question
    contexts = corpus.shown() if chosen else [node.text for node in corpus.nodes]
    return Variant(asking(draw, engine, question), question, contexts, answer)


def chat_engine(draw: Variation) -> Variant:
    """A chat engine of any kind, on a second turn; the user's own words are the question."""
    corpus, question, answer = Corpus(draw, 2), draw.question(), answered(draw)
    modes = (ChatMode.CONTEXT, ChatMode.CONDENSE_PLUS_CONTEXT, ChatMode.CONDENSE_QUESTION)
    mode = draw.chance.choice(modes)
    condensed, earlier = corpus.question, [draw.question(), draw.sentence()]

    def reply(messages: Sequence[ChatMessage]) -> str:
        shown = any(node.text in prompt_text(messages) for node in corpus.nodes)
        return answer if shown else condensed

    engine = corpus.index.as_chat_engine(
        chat_mode=mode, llm=Scripted(reply=reply), similarity_top_k=2
    )
    history = [
        ChatMessage(role=role, content=text)
        for role, text in zip(("user", "assistant"), earlier, strict=True)
    ]
    if mode is ChatMode.CONTEXT:
        corpus.question = question
    ask: Any = draw.chance.choice([engine.chat, engine.achat])
    run = lambda: ask(question, chat_history=history)  # noqa: E731
    return Variant(run, question, corpus.shown(), answer)


def structured(draw: Variation) -> Variant:
    """A query engine that fills in a form with fields of any name."""
    corpus = Corpus(draw, 2)
    name, values = draw.name().title(), {draw.name(): draw.short(), draw.name(): draw.word()}
    form = create_model(name, **dict.fromkeys(values, (str, ...)))  # type: ignore[call-overload]
    model = Scripted(reply=lambda _: pick(name, **values))
    engine = corpus.engine(model, output_cls=form)
    answer = form(**values).model_dump_json()
    return Variant(asking(draw, engine, corpus.question), corpus.question, corpus.shown(), answer)


def citations(draw: Variation) -> Variant:
    """An engine that numbers its sources for the model to cite."""
    corpus = Corpus(draw, 2)
    answer = f"{draw.sentence()} [1][2]"
    engine = CitationQueryEngine.from_args(
        corpus.index,
        llm=says(answer),
        retriever=corpus.retriever,
        text_splitter=SentenceSplitter(tokenizer=str.split),
    )
    contexts = [f"Source {n}:\n{text}\n" for n, text in enumerate(corpus.shown(), 1)]
    run = lambda: engine.query(corpus.question)  # noqa: E731
    return Variant(run, corpus.question, contexts, answer)


TUTORIALS: dict[str, Callable[[Variation], Variant]] = {
    f"tutorial_{made.__name__}": made
    for made in (starter, router, chat_engine, structured, citations, *WORKFLOWS, *AGENTS)
}
"""By name."""
