"""What is read from what LangChain passes around."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import pytest
from langchain_core.documents import Document
from langchain_core.messages import AIMessage, HumanMessage, SystemMessage, ToolMessage
from langchain_core.prompts import ChatPromptTemplate
from pydantic import BaseModel

from rag_eval_hooks_langchain.documents import DOCUMENT_KEYS, Documents
from rag_eval_hooks_langchain.tools import text_of_tool
from rag_eval_hooks_langchain.values import answer_of, question_of


class Model(BaseModel):
    """A state or an answer as a model of pydantic."""

    question: str = "q"
    answer: str = "a"
    documents: list[Any] = []


@dataclass
class Data:
    """The same as a dataclass."""

    question: str
    answer: str


HUMAN = HumanMessage(
    content=[{"type": "text", "text": "q"}, {"type": "image_url", "image_url": ""}]
)


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
        ([HumanMessage("q")], "q"),
        (ChatPromptTemplate.from_template("{x}").invoke({"x": "q"}), "q"),
        (Model(), "q"),
        (Data("q", "a"), "q"),
        (7, None),
        (None, None),
    ],
)
def test_the_question_is_read_in_every_form(inputs: Any, question: str | None) -> None:
    """Texts, known keys, messages in all their forms, states that are objects."""
    assert question_of(inputs) == question


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
        (Data("q", "a"), "a"),
        ({"generation": AIMessage("a")}, "a"),
        ({"unknown": "a"}, None),
        (7, None),
    ],
)
def test_the_answer_is_read_in_every_form(outputs: Any, answer: str | None) -> None:
    """An answer of an earlier turn is never taken for that of this one."""
    assert answer_of(outputs) == answer


ONE, TWO = Document("one"), Document("two")
LISTS = Documents(DOCUMENT_KEYS)


def texts(outputs: Any, given: Any = None) -> list[list[str]]:
    return [[context.text for context in found] for found in LISTS.found_in(outputs, given)]


def test_documents_are_found_wherever_they_stand() -> None:
    """Lists, pairs with a score, nested states, artifacts."""
    assert texts([ONE, TWO]) == [["one", "two"]]
    assert texts([(ONE, 0.5), (TWO, 0.25)]) == [["one", "two"]]
    assert texts({"a": {"b": [ONE]}, "c": [TWO]}) == [["one"], ["two"]]
    assert texts(Model(documents=[ONE])) == [["one"]]
    assert texts([[ONE], [TWO]]) == [["one"], ["two"]]
    message = ToolMessage("text", tool_call_id="1", artifact=[ONE])
    assert texts(message) == texts({"messages": [message]}) == [["one"]]
    assert LISTS.found_in([(ONE, 0.5)])[0][0].score == 0.5


def test_a_list_of_texts_or_nothing_counts_by_its_name() -> None:
    """Without documents in it the type of a list is known by its key alone."""
    assert texts({"documents": ["one"], "names": ["x"], "docs": []}) == [["one"], []]
    assert texts({"names": []}) == texts([]) == texts("text") == texts(None) == []


def test_what_was_given_is_no_find() -> None:
    """A step that hands on what it got has found nothing."""
    documents, message = [ONE], ToolMessage("text", tool_call_id="1", artifact=[TWO])
    given = {"documents": documents, "messages": [message], "docs": []}
    assert texts({**given, "answer": "a"}, given) == []
    assert texts({"documents": [ONE]}, given) == []
    assert texts({"documents": [TWO]}, given) == [["two"]]
    new = ToolMessage("text", tool_call_id="2", artifact=[ONE])
    assert texts({"messages": [message, new]}, given) == [["one"]]


def test_a_prompt_is_no_find() -> None:
    """Artifacts in a prompt or in a bare list of messages may be of an earlier turn."""
    messages = [HumanMessage("q"), ToolMessage("text", tool_call_id="1", artifact=[ONE])]
    assert texts(messages) == []
    assert texts(ChatPromptTemplate.from_messages(messages).invoke({})) == []


def test_messages_of_earlier_turns_are_no_find() -> None:
    """Where messages are not new, their artifacts are not either; documents beside them are."""
    message = ToolMessage("text", tool_call_id="1", artifact=[ONE])
    state = {"messages": [message], "documents": [TWO]}
    found = LISTS.found_in(state, artifacts=False)
    assert [[context.text for context in contexts] for contexts in found] == [["two"]]


def test_a_cycle_ends_the_search() -> None:
    """Whatever refers to itself is searched a few levels deep."""
    cycle: dict[str, Any] = {"documents": [ONE]}
    cycle["again"] = [cycle]
    assert texts(cycle)[0] == ["one"]


@pytest.mark.parametrize(
    ("output", "text"),
    [
        ("A text that is long enough.", "A text that is long enough."),
        (
            ToolMessage("A text that is long enough.", tool_call_id="1"),
            "A text that is long enough.",
        ),
        (ToolMessage("Error: it is all down.", tool_call_id="1", status="error"), None),
        ("42", None),
        (42, None),
    ],
)
def test_texts_of_tools(output: Any, text: str | None) -> None:
    """A number or a failure of a tool is no context."""
    found = text_of_tool(output)
    assert (None if found is None else found.text) == text
