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
    StepDecomposeQueryTransform,
)
from llama_index.core.prompts import PromptTemplate
from llama_index.core.query_engine import (
    CitationQueryEngine,
    MultiStepQueryEngine,
    RouterQueryEngine,
    SubQuestionQueryEngine,
    TransformQueryEngine,
)
from llama_index.core.question_gen import LLMQuestionGenerator
from llama_index.core.response_synthesizers import TreeSummarize, get_response_synthesizer
from llama_index.core.schema import QueryBundle
from llama_index.core.selectors import LLMSingleSelector
from llama_index.core.tools import QueryEngineTool

from tests.matrix.llama_index.kit import (
    BOTH,
    FERRIES,
    PLAIN,
    QUERY_SPANS,
    QUESTION,
    QUESTIONS,
    READ_WAYS,
    TICKETS,
    WAYS,
    WORDS,
    Scripted,
    answer_to,
    index,
    prompt_text,
    reader,
    shape,
    told,
    top,
    words,
)

__all__ = ["SHAPES"]

GROUP = "query engines"
STEPPED = told("After one step: 07:40.")
SUMMARY = PromptTemplate("{context_str}\n{query_str}")
RESERVE = 16
"""Tokens of the reply, and what LlamaIndex leaves free."""
EVEN = tuple(WORDS(" ".join(text.split()[:14])) for text in PLAIN)


def engine(mode: str, streaming: bool, **more: Any) -> Any:
    """A RetrieverQueryEngine."""
    return index().as_query_engine(
        llm=reader(), response_mode=mode, streaming=streaming, similarity_top_k=2, **more
    )


def of_each(question: str) -> str:
    """Return the answer of a mode that asks about each chunk by itself."""
    return answer_to(question, top(question, 1))


def accumulated(question: str) -> str:
    """The answers over each chunk, one after another."""
    one = of_each(question)
    return f"Response 1: {one}\n---------------------\nResponse 2: {one}"


def taken(texts: Iterable[str]) -> str:
    """Return the answer of a step about the texts that it sees."""
    seen = list(texts)
    return answer_to(str([EVEN.index(text) for text in seen]), seen)


def room_for(texts: Sequence[str], count: float) -> PromptHelper:
    """Room in a prompt for so many of the texts, whatever their language."""
    needed = len(words(QUESTION)) + count * max(len(words(text)) for text in texts)
    return PromptHelper(
        context_window=round(needed) + RESERVE,
        num_output=8,
        chunk_overlap_ratio=0.0,
        tokenizer=words,
    )


def tree(streaming: bool) -> Any:
    """A tree with steps for pieces of the chunks and one that joins their answers."""

    def reply(messages: Sequence[ChatMessage]) -> str:
        return taken(text for text in EVEN if text in prompt_text(messages))

    synthesizer = TreeSummarize(
        llm=Scripted(reply=reply),
        prompt_helper=room_for(EVEN, 1),
        summary_template=SUMMARY,
        streaming=streaming,
    )
    return index(EVEN).as_query_engine(response_synthesizer=synthesizer, similarity_top_k=2)


def divided(streaming: bool) -> Any:
    """A tree whose steps are given pieces of nodes: some begin in one prompt and end in another."""
    count = itertools.count(1)
    synthesizer = TreeSummarize(
        llm=Scripted(reply=lambda _: told(f"Summary number {next(count)} of the passages.")),
        prompt_helper=room_for(EVEN, 1.7),
        summary_template=SUMMARY,
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
        engine("compact", streaming), name=name, description=WORDS("Knows about it.")
    )


def router(streaming: bool) -> Any:
    """A selector and two engines."""

    def choice(messages: Sequence[ChatMessage]) -> str:
        return json.dumps([{"choice": 1, "reason": WORDS("it fits")}])

    return RouterQueryEngine.from_defaults(
        [tool(FERRIES, streaming), tool(TICKETS, streaming)],
        llm=reader(),
        selector=LLMSingleSelector.from_defaults(llm=Scripted(reply=choice)),
    )


def joined(told_of: Iterable[bool]) -> str:
    """Return the answer to both questions, by whose answers are there."""
    said = list(told_of)
    return answer_to(str(said), [str(one) for one in said])


def sub_questions(streaming: bool) -> Any:
    """Two questions for one."""

    def split(messages: Sequence[ChatMessage]) -> str:
        asked = [{"sub_question": text, "tool_name": FERRIES} for text in QUESTIONS]
        return "```json\n" + json.dumps({"items": asked}) + "\n```"

    def join(messages: Sequence[ChatMessage]) -> str:
        return joined(answer_to(q, top(q)) in prompt_text(messages) for q in QUESTIONS)

    return SubQuestionQueryEngine.from_defaults(
        [tool(FERRIES)],
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
            llm=Scripted(reply=lambda _: STEPPED), streaming=streaming
        ),
        index_summary=WORDS("ferries"),
        num_steps=1,
    )


def hyde(streaming: bool) -> Any:
    """Retrieves by an invented answer."""
    return TransformQueryEngine(
        engine("compact", streaming),
        HyDEQueryTransform(
            llm=Scripted(reply=lambda _: WORDS("The ferry to Skarn leaves the quay."))
        ),
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
        answer=lambda q: taken(()),
        spans=("chat scripted", *TWO_CALLS),
    ),
    shape(
        GROUP,
        "tree_summarize of divided nodes",
        divided,
        contexts=lambda q: top(q, 6, EVEN),
        answer=lambda q: str(divided(False).query(q)),
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
        answer=lambda q: joined([True, True]),
        spans=None,
        questions=[BOTH],
    ),
    shape(
        GROUP,
        "MultiStepQueryEngine",
        multi_step,
        answer=lambda q: STEPPED,
        spans=None,
        questions=[QUESTION],
    ),
    shape(
        GROUP,
        "HyDE",
        hyde,
        contexts=lambda q: [n.get_content() for n in hyde(False).retrieve(QueryBundle(q))],
        spans=None,
        questions=[QUESTION],
        ways=READ_WAYS,
    ),
)
