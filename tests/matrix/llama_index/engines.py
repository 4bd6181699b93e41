"""Query engines, in all response modes."""

from __future__ import annotations

import itertools
import json
from collections.abc import Sequence
from typing import Any

from llama_index.core.base.llms.types import ChatMessage
from llama_index.core.indices.prompt_helper import PromptHelper
from llama_index.core.indices.query.query_transform import (
    HyDEQueryTransform,
    StepDecomposeQueryTransform,
)
from llama_index.core.query_engine import (
    CitationQueryEngine,
    MultiStepQueryEngine,
    RouterQueryEngine,
    SubQuestionQueryEngine,
    TransformQueryEngine,
)
from llama_index.core.question_gen import LLMQuestionGenerator
from llama_index.core.response_synthesizers import TreeSummarize, get_response_synthesizer
from llama_index.core.selectors import LLMSingleSelector
from llama_index.core.tools import QueryEngineTool

from tests.matrix.llama_index.kit import (
    PASSAGES,
    QUERY_SPANS,
    QUESTION,
    QUESTIONS,
    READ_WAYS,
    WAYS,
    Scripted,
    answer_to,
    index,
    prompt_text,
    reader,
    shape,
    top,
)

__all__ = ["SHAPES"]

GROUP = "query engines"
EVEN = tuple(" ".join(text.split()[:14]) for text in PASSAGES)
WINDOW = 126
"""Tokens of the prompt, the reply, and about one of these texts."""


def engine(mode: str, streaming: bool, **more: Any) -> Any:
    """A RetrieverQueryEngine."""
    return index().as_query_engine(
        llm=reader(), response_mode=mode, streaming=streaming, similarity_top_k=2, **more
    )


def of_each(question: str) -> str:
    """What a mode answers that asks about each chunk by itself."""
    return answer_to(question, top(question, 1))


def accumulated(question: str) -> str:
    """The answers over each chunk, one after another."""
    one = of_each(question)
    return f"Response 1: {one}\n---------------------\nResponse 2: {one}"


def tree(streaming: bool) -> Any:
    """A tree with steps for pieces of the chunks and one that joins their answers."""

    def reply(messages: Sequence[ChatMessage]) -> str:
        said = [n for n, text in enumerate(EVEN) if text in prompt_text(messages)]
        return f"Taken-from-the-passages-{said}"

    helper = PromptHelper(context_window=WINDOW, num_output=8, chunk_overlap_ratio=0.0)
    synthesizer = TreeSummarize(
        llm=Scripted(reply=reply), prompt_helper=helper, streaming=streaming
    )
    return index(EVEN).as_query_engine(response_synthesizer=synthesizer, similarity_top_k=2)


def divided(streaming: bool) -> Any:
    """A tree whose steps are given pieces of nodes: some begin in one prompt and end in another."""
    count = itertools.count(1)
    helper = PromptHelper(context_window=150, num_output=8, chunk_overlap_ratio=0.0)
    synthesizer = TreeSummarize(
        llm=Scripted(reply=lambda _: f"Summary number {next(count)} of the passages."),
        prompt_helper=helper,
        streaming=streaming,
    )
    return index(EVEN).as_query_engine(response_synthesizer=synthesizer, similarity_top_k=6)


def citation(streaming: bool) -> Any:
    """Sources with numbers."""
    synthesizer = get_response_synthesizer(llm=reader(), streaming=streaming)
    return CitationQueryEngine.from_args(
        index(), llm=reader(), response_synthesizer=synthesizer, similarity_top_k=2
    )


def cited(question: str) -> list[str]:
    """The sources as the LLM sees them."""
    return [f"Source {n}:\n{text}\n" for n, text in enumerate(top(question), 1)]


def tool(name: str, streaming: bool = False) -> QueryEngineTool:
    """A query engine as a tool."""
    return QueryEngineTool.from_defaults(
        engine("compact", streaming), name=name, description=f"Knows about {name}."
    )


def router(streaming: bool) -> Any:
    """A selector and two engines."""

    def choice(messages: Sequence[ChatMessage]) -> str:
        return json.dumps([{"choice": 1, "reason": "it fits"}])

    return RouterQueryEngine.from_defaults(
        [tool("ferries", streaming), tool("tickets", streaming)],
        llm=reader(),
        selector=LLMSingleSelector.from_defaults(llm=Scripted(reply=choice)),
    )


def sub_questions(streaming: bool) -> Any:
    """Two questions for one."""

    def split(messages: Sequence[ChatMessage]) -> str:
        asked = [{"sub_question": text, "tool_name": "ferries"} for text in QUESTIONS]
        return "```json\n" + json.dumps({"items": asked}) + "\n```"

    def join(messages: Sequence[ChatMessage]) -> str:
        prompt = prompt_text(messages)
        return f"Both: {[answer_to(q, top(q)) in prompt for q in QUESTIONS]}"

    return SubQuestionQueryEngine.from_defaults(
        [tool("ferries")],
        llm=reader(),
        question_gen=LLMQuestionGenerator.from_defaults(llm=Scripted(reply=split)),
        response_synthesizer=get_response_synthesizer(
            llm=Scripted(reply=join), streaming=streaming, use_async=False
        ),
        use_async=False,
        verbose=False,
    )


def multi_step(streaming: bool) -> Any:
    """One step, in which the question is asked as it is, and an answer over the steps."""

    def decompose(messages: Sequence[ChatMessage]) -> str:
        return QUESTION

    return MultiStepQueryEngine(
        engine("compact", False),
        StepDecomposeQueryTransform(llm=Scripted(reply=decompose)),
        response_synthesizer=get_response_synthesizer(
            llm=Scripted(reply=lambda _: "After one step: 07:40."), streaming=streaming
        ),
        index_summary="ferries",
        num_steps=1,
    )


def hyde(streaming: bool) -> Any:
    """Retrieves by an invented answer."""
    return TransformQueryEngine(
        engine("compact", streaming),
        HyDEQueryTransform(llm=Scripted(reply=lambda _: "The ferry to Skarn leaves the quay.")),
    )


TWO_CALLS = ("chat scripted", *QUERY_SPANS)
SUB_QUERY = (*QUERY_SPANS, *QUERY_SPANS)

SHAPES = (
    shape(GROUP, "RetrieverQueryEngine, compact", lambda s: engine("compact", s)),
    shape(
        GROUP,
        "refine",
        lambda s: engine("refine", s),
        answer=of_each,
        spans=TWO_CALLS,
    ),
    shape(GROUP, "tree_summarize", lambda s: engine("tree_summarize", s)),
    shape(
        GROUP,
        "tree_summarize in levels",
        tree,
        contexts=lambda q: top(q, 2, EVEN),
        answer=lambda q: "Taken-from-the-passages-[]",
        spans=(*["chat scripted"] * 2, *TWO_CALLS),
    ),
    shape(
        GROUP,
        "tree_summarize of divided nodes",
        divided,
        contexts=lambda q: top(q, 6, EVEN),
        answer=lambda q: "Summary number 4 of the passages.",
        spans=None,
        questions=[QUESTION],
    ),
    shape(GROUP, "simple_summarize", lambda s: engine("simple_summarize", s)),
    shape(
        GROUP,
        "accumulate",
        lambda s: engine("accumulate", s),
        answer=accumulated,
        spans=TWO_CALLS,
        ways=WAYS,
    ),
    shape(
        GROUP,
        "compact_accumulate",
        lambda s: engine("compact_accumulate", s),
        answer=lambda q: f"Response 1: {answer_to(q, top(q))}",
        ways=WAYS,
    ),
    shape(
        GROUP,
        "no_text",
        lambda s: engine("no_text", s),
        answer=lambda q: "",
        spans=QUERY_SPANS[1:],
        ways=WAYS,
    ),
    shape(GROUP, "CitationQueryEngine", citation, contexts=cited),
    shape(GROUP, "RouterQueryEngine", router, spans=TWO_CALLS),
    shape(
        GROUP,
        "SubQuestionQueryEngine",
        sub_questions,
        contexts=lambda q: list(dict.fromkeys([*top(QUESTIONS[0]), *top(QUESTIONS[1])])),
        answer=lambda q: "Both: [True, True]",
        spans=None,
        questions=["When, and at what price?"],
    ),
    shape(
        GROUP,
        "MultiStepQueryEngine",
        multi_step,
        answer=lambda q: "After one step: 07:40.",
        spans=None,
        questions=[QUESTION],
    ),
    shape(
        GROUP,
        "HyDE",
        hyde,
        contexts=lambda q: top("The ferry to Skarn leaves the quay."),
        spans=None,
        questions=[QUESTION],
        ways=READ_WAYS,
    ),
)
