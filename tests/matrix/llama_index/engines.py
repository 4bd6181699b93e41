"""Query engines, in all response modes."""

from __future__ import annotations

import itertools
import json
from collections.abc import Iterable, Sequence
from typing import Any

from llama_index.core.base.llms.types import ChatMessage
from llama_index.core.indices.prompt_helper import PromptHelper
from llama_index.core.indices.query.query_transform import (
    HyDEQueryTransform,
)
from llama_index.core.prompts import PromptTemplate
from llama_index.core.query_engine import (
    CitationQueryEngine,
    RouterQueryEngine,
    SubQuestionQueryEngine,
    TransformQueryEngine,
)
from llama_index.core.question_gen import LLMQuestionGenerator
from llama_index.core.response_synthesizers import TreeSummarize, get_response_synthesizer
from llama_index.core.schema import QueryBundle
from llama_index.core.selectors import LLMSingleSelector
from llama_index.core.tools import QueryEngineTool

from tests.matrix.llama_index import kit

GROUP = "query engines"
SUMMARY = PromptTemplate("{context_str}\n{query_str}")
RESERVE = 16
"""Tokens of the reply, and what LlamaIndex leaves free."""
EVEN = tuple(kit.WORDS(" ".join(text.split()[:14])) for text in kit.PLAIN)


def engine(mode: str, streaming: bool, **more: Any) -> Any:
    return kit.index().as_query_engine(
        llm=kit.reader(), response_mode=mode, streaming=streaming, similarity_top_k=2, **more
    )


def of_each(question: str) -> str:
    """Return the answer of a mode that asks about each chunk by itself."""
    return kit.answer_to(question, kit.top(question, 1))


def accumulated(question: str) -> str:
    one = of_each(question)
    return f"Response 1: {one}\n---------------------\nResponse 2: {one}"


def taken(texts: Iterable[str]) -> str:
    """Return the answer of a step about the texts that it sees."""
    seen = list(texts)
    return kit.answer_to(str([EVEN.index(text) for text in seen]), seen)


def room_for(texts: Sequence[str], count: float) -> PromptHelper:
    """Room in a prompt for so many of the texts, whatever their language."""
    needed = len(kit.words(kit.QUESTION)) + count * max(len(kit.words(text)) for text in texts)
    return PromptHelper(
        context_window=round(needed) + RESERVE,
        num_output=8,
        chunk_overlap_ratio=0.0,
        tokenizer=kit.words,
    )


def tree(streaming: bool) -> Any:
    """A tree with steps for pieces of the chunks and one that joins their answers."""

    def reply(messages: Sequence[ChatMessage]) -> str:
        return taken(text for text in EVEN if text in kit.prompt_text(messages))

    synthesizer = TreeSummarize(
        llm=kit.Scripted(reply=reply),
        prompt_helper=room_for(EVEN, 1),
        summary_template=SUMMARY,
        streaming=streaming,
    )
    return kit.index(EVEN).as_query_engine(response_synthesizer=synthesizer, similarity_top_k=2)


def divided(streaming: bool) -> Any:
    """A tree whose steps are given pieces of nodes: some begin in one prompt and end in another."""
    count = itertools.count(1)
    synthesizer = TreeSummarize(
        llm=kit.Scripted(
            reply=lambda _: kit.told(f"Summary number {next(count)} of the passages.")
        ),
        prompt_helper=room_for(EVEN, 1.7),
        summary_template=SUMMARY,
        streaming=streaming,
    )
    return kit.index(EVEN).as_query_engine(response_synthesizer=synthesizer, similarity_top_k=6)


def citation(streaming: bool) -> Any:
    synthesizer = get_response_synthesizer(llm=kit.reader(), streaming=streaming)
    return CitationQueryEngine.from_args(
        kit.index(), llm=kit.reader(), response_synthesizer=synthesizer, similarity_top_k=2
    )


def cited(question: str) -> list[str]:
    return [f"Source {n}:\n{text}\n" for n, text in enumerate(kit.top(question), 1)]


def tool(name: str, streaming: bool = False) -> QueryEngineTool:
    return QueryEngineTool.from_defaults(
        engine("compact", streaming), name=name, description=kit.WORDS("Knows about it.")
    )


def router(streaming: bool) -> Any:

    def choice(messages: Sequence[ChatMessage]) -> str:
        return json.dumps([{"choice": 1, "reason": kit.WORDS("it fits")}])

    return RouterQueryEngine.from_defaults(
        [tool(kit.FERRIES, streaming), tool(kit.TICKETS, streaming)],
        llm=kit.reader(),
        selector=LLMSingleSelector.from_defaults(llm=kit.Scripted(reply=choice)),
    )


def joined(told_of: Iterable[bool]) -> str:
    """Return the answer to both questions, by whose answers are there."""
    said = list(told_of)
    return kit.answer_to(str(said), [str(one) for one in said])


def sub_questions(streaming: bool) -> Any:

    def split(messages: Sequence[ChatMessage]) -> str:
        asked = [{"sub_question": text, "tool_name": kit.FERRIES} for text in kit.QUESTIONS]
        return "```json\n" + json.dumps({"items": asked}) + "\n```"

    def join(messages: Sequence[ChatMessage]) -> str:
        return joined(
            kit.answer_to(q, kit.top(q)) in kit.prompt_text(messages) for q in kit.QUESTIONS
        )

    return SubQuestionQueryEngine.from_defaults(
        [tool(kit.FERRIES)],
        llm=kit.reader(),
        question_gen=LLMQuestionGenerator.from_defaults(llm=kit.Scripted(reply=split)),
        response_synthesizer=get_response_synthesizer(
            llm=kit.Scripted(reply=join), streaming=streaming, use_async=False
        ),
        use_async=False,
        verbose=False,
    )


def hyde(streaming: bool) -> Any:
    return TransformQueryEngine(
        engine("compact", streaming),
        HyDEQueryTransform(
            llm=kit.Scripted(reply=lambda _: kit.WORDS("The ferry to Skarn leaves the quay."))
        ),
    )


TWO_CALLS = ("chat scripted", *kit.QUERY_SPANS)

SHAPES = (
    kit.shape(GROUP, "RetrieverQueryEngine, compact", lambda s: engine("compact", s)),
    kit.shape(
        GROUP,
        "refine",
        lambda s: engine("refine", s),
        answer=of_each,
        spans=TWO_CALLS,
    ),
    kit.shape(GROUP, "tree_summarize", lambda s: engine("tree_summarize", s)),
    kit.shape(
        GROUP,
        "tree_summarize in levels",
        tree,
        contexts=lambda q: kit.top(q, 2, EVEN),
        answer=lambda q: taken(()),
        spans=("chat scripted", *TWO_CALLS),
    ),
    kit.shape(
        GROUP,
        "tree_summarize of divided nodes",
        divided,
        contexts=lambda q: kit.top(q, 6, EVEN),
        answer=lambda q: str(divided(False).query(q)),
        spans=None,
        questions=[kit.QUESTION],
    ),
    kit.shape(
        GROUP,
        "accumulate",
        lambda s: engine("accumulate", s),
        answer=accumulated,
        spans=TWO_CALLS,
        ways=kit.WAYS,
    ),
    kit.shape(
        GROUP,
        "compact_accumulate",
        lambda s: engine("compact_accumulate", s),
        answer=lambda q: f"Response 1: {kit.answer_to(q, kit.top(q))}",
        ways=kit.WAYS,
    ),
    kit.shape(
        GROUP,
        "no_text",
        lambda s: engine("no_text", s),
        answer=lambda q: "",
        spans=kit.QUERY_SPANS[1:],
        ways=kit.WAYS,
    ),
    kit.shape(GROUP, "CitationQueryEngine", citation, contexts=cited),
    kit.shape(GROUP, "RouterQueryEngine", router, spans=TWO_CALLS),
    kit.shape(
        GROUP,
        "SubQuestionQueryEngine",
        sub_questions,
        contexts=lambda q: list(
            dict.fromkeys([*kit.top(kit.QUESTIONS[0]), *kit.top(kit.QUESTIONS[1])])
        ),
        answer=lambda q: joined([True, True]),
        spans=None,
        questions=[kit.BOTH],
    ),
    kit.shape(
        GROUP,
        "HyDE",
        hyde,
        contexts=lambda q: [n.get_content() for n in hyde(False).retrieve(QueryBundle(q))],
        spans=None,
        questions=[kit.QUESTION],
        ways=kit.READ_WAYS,
    ),
)
