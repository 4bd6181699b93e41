"""Questions, answers and documents are read from the values that LangChain passes around."""

from __future__ import annotations

import json
from datetime import date
from enum import Enum
from typing import Any

import pytest
from langchain_core.documents import Document
from langchain_core.messages import AIMessage, HumanMessage, SystemMessage, ToolMessage
from langchain_core.prompts import ChatPromptTemplate
from pydantic import BaseModel

from rag_eval_hooks.capture import readings
from rag_eval_hooks.capture.documents import documents_in
from rag_eval_hooks.capture.snapshots import Copier, Snapshots
from rag_eval_hooks_langchain.vocabulary import form_of
from tests.support.variation import Variation, seeds

ONE, TWO = Document("one"), Document("two")


def copies(*values: Any) -> tuple[Any, ...]:
    """Copies of values, of which equal objects are one."""
    copier = Copier(Snapshots(), form_of, {}, None, 10**9, nodes=20_000)
    return tuple(map(copier.of, values))


def answer_of(value: Any, given: Any = None) -> str | None:
    return readings.answer_of(*copies(value, given))


def structured(value: Any, given: Any = None, *, state: bool = False) -> str | None:
    return readings.structured_answer(*copies(value, given), is_state=state)


def others(value: Any, given: Any, answer: str | None) -> tuple[str, ...]:
    copy, before = copies(value, given)
    return readings.other_answers(copy, before, answer)


class Kind(Enum):
    """A value with a name."""

    YES = "yes"


class Source(BaseModel):
    """A part of an answer."""

    kind: Kind = Kind.YES
    day: date = date(2024, 5, 1)


class Verdict(BaseModel):
    """An answer in parts."""

    sources: list[Source] = [Source()]


class Model(BaseModel):
    """A state or an answer as a model of pydantic."""

    question: str = "q"
    answer: str = "a"
    documents: list[Any] = []


HUMAN = HumanMessage(
    content=[{"type": "text", "text": "q"}, {"type": "image_url", "image_url": ""}]
)


FILE = {"type": "text-plain", "text": "a file"}


@pytest.mark.parametrize(
    ("inputs", "question"),
    [
        ("q", "q"),
        ({"question": "q", "language": "en"}, "q"),
        ({"topic": "q", "k": 3}, "q"),
        ({"one": "a", "two": "b"}, None),
        ({"messages": [SystemMessage("s"), HUMAN, AIMessage("a")]}, "q"),
        ({"messages": [{"role": "user", "content": "q"}]}, "q"),
        ({"messages": [("human", "first"), ("ai", "a"), ("user", "q")]}, "q"),
        ({"messages": "q"}, "q"),
        ({"messages": [HumanMessage("q")], "question": "", "answer": ""}, "q"),
        ({"question": "", "query": " ", "input": "q"}, "q"),
        ({"question": "", "language": "en"}, ""),
        ([HumanMessage([{"type": "text", "text": "q"}, FILE])], "q"),
        ([{"role": "user", "content": [{"text": "q"}, FILE]}], "q"),
        (ChatPromptTemplate.from_template("{x}").invoke({"x": "q"}), "q"),
        (Model(), "q"),
        (7, None),
    ],
)
def test_the_question_is_read_in_every_form(inputs: Any, question: str | None) -> None:
    """Texts, known keys, messages in all their forms, states that are objects."""
    assert readings.question_of(*copies(inputs)) == question


@pytest.mark.parametrize(
    ("outputs", "answer"),
    [
        ("a", "a"),
        (AIMessage([{"type": "text", "text": "a"}]), "a"),
        ({"context": [], "answer": "a"}, "a"),
        ({"messages": [HumanMessage("q"), AIMessage("a")]}, "a"),
        ({"messages": [HumanMessage("old"), AIMessage("old"), HumanMessage("q")]}, None),
        ({"messages": [HumanMessage("q"), ToolMessage("a", tool_call_id="1")]}, "a"),
        ({"messages": [HumanMessage("q"), AIMessage("a"), HumanMessage("x", name="b")]}, "a"),
        (Model(), "a"),
        ({"messages": [HumanMessage("q"), AIMessage("a")], "answer": ""}, "a"),
        ({"answer": " ", "output": "a"}, "a"),
        ({"answer": ""}, ""),
        ({"messages": [HumanMessage("q"), AIMessage("a")], "result": {"n": 3}}, "a"),
        ({"structured_response": Kind.YES, "messages": [AIMessage("Returning")]}, '"yes"'),
        ({"raw": AIMessage("a"), "parsed": None, "parsing_error": "e"}, "a"),
        ({"raw": AIMessage(""), "parsed": {"n": 1}, "parsing_error": None}, '{"n": 1}'),
        ({"result": [ONE]}, None),
        ({"answer": []}, None),
        ({"unknown": "a"}, None),
        (7, None),
    ],
)
def test_the_answer_is_read_in_every_form(outputs: Any, answer: str | None) -> None:
    """An answer of an earlier turn is never taken for that of this one."""
    assert answer_of(outputs) == answer


VERDICT = {"sources": [{"kind": "yes", "day": "2024-05-01"}]}


@pytest.mark.parametrize(
    ("value", "plain"),
    [
        ({"verdict": "yes", "n": 1}, {"verdict": "yes", "n": 1}),
        (Verdict(), VERDICT),
        ([Source()], VERDICT["sources"]),
        (["a", "b"], ["a", "b"]),
        (False, False),
        (0.5, 0.5),
    ],
)
def test_a_structured_answer_is_the_json_of_itself(value: Any, plain: Any) -> None:
    """Alone, under a known name and as what was parsed: its own JSON, and nothing around it."""
    beside = {"question": "q", "context": [ONE]}
    assert json.loads(answer_of({**beside, "answer": value}) or "") == plain
    parsed = {"raw": AIMessage("r"), "parsed": value, "parsing_error": None}
    assert json.loads(answer_of(parsed) or "") == plain
    assert json.loads(structured(value) or "") == plain


def test_a_structured_answer_in_a_state_is_the_new_value() -> None:
    """Beside documents and messages, or in a state, what is new and structured is the answer."""
    given = {"settings": {"k": 1}}
    state = {**given, "documents": [ONE], "verdict": Verdict()}
    assert json.loads(structured(state, given, state=True) or "") == VERDICT
    assert structured({**state, "plan": {"steps": 2}}, given, state=True) is None
    assert structured({"documents": [ONE], "n": 1}) is None
    assert structured([ONE]) is structured({}) is structured(None) is None


def test_what_was_given_is_no_answer() -> None:
    """A value that only passes through is not the answer, whatever its name."""
    given = {"text": "t", "topic": "x"}
    assert answer_of({**given, "reply": "a"}, given) is None
    assert others({**given, "reply": "a"}, given, None) == ("a",)
    assert answer_of({"text": "a"}, given) == "a"


def texts(outputs: Any, given: Any = None, **options: Any) -> list[list[str]]:
    found = documents_in(*copies(outputs, given), **options)
    return [[context.text for context in contexts] for contexts in found]


@pytest.mark.parametrize(
    "value",
    [
        [{"page_content": "one", "metadata": {"n": 1}}],
        [{"text": "one", "score": 0.5}],
        ONE,
        {"page_content": "one"},
        {"a.md": ONE},
        [ONE, None],
        [None, (ONE, 0.5)],
    ],
)
def test_documents_under_their_name_are_found_in_every_form(value: Any) -> None:
    """Mappings, one alone, by name, with gaps; handed on they are no find."""
    assert texts({"docs": value}) == [["one"]]
    given = {"docs": value}
    assert texts({**given, "answer": "a"}, given) == []


def test_what_was_given_is_no_find() -> None:
    """A step that hands on what it got has found nothing."""
    documents, message = [ONE], ToolMessage("text", tool_call_id="1", artifact=[TWO])
    given = {"documents": documents, "messages": [message], "docs": []}
    assert texts({**given, "answer": "a"}, given) == []
    assert texts({"documents": [ONE]}, given) == []
    assert texts({"documents": [TWO]}, given) == [["two"]]
    new = ToolMessage("text", tool_call_id="2", artifact=[ONE])
    assert texts({"messages": [message, new]}, given) == [["one"]]


@pytest.mark.parametrize("seed", seeds(6))
def test_a_prompt_has_the_texts_of_documents_and_no_data_of_files(seed: int) -> None:
    """Search results and documents are read as deep as their text is; what is encoded is left."""
    drawn = Variation(seed)
    told, asked, data = drawn.passage(), drawn.question(), "QUJD" * 9
    text = {"type": "text", "text": told}
    blocks: list[dict[str, Any]] = [
        {"type": "search_result", "source": drawn.name(), "content": [text]},
        {"type": "document", "source": {"type": "text", "data": told}, "title": drawn.name()},
        {"type": "document", "source": {"type": "content", "content": [text]}},
        {"type": "document", "source": {"type": "base64", "data": data}},
        {"type": "image", "source": {"type": "base64", "data": data}},
        {"type": "file", "source_type": "base64", "data": data},
    ]
    block = blocks[seed % len(blocks)]
    content: list[Any] = [block, {"type": "text", "text": asked}]
    (message,) = copies(HumanMessage(content=content))
    shown = message.shown
    assert shown.endswith(asked)
    assert data not in shown
    assert (told in shown) == (data not in str(block))
