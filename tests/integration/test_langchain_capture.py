"""Questions, answers, metadata, choices and limits of real LangChain chains."""

from __future__ import annotations

import json
from collections.abc import Callable
from datetime import date
from enum import Enum
from typing import Any

import pytest
from langchain_core.documents import Document
from langchain_core.messages import AIMessage, HumanMessage, SystemMessage, ToolMessage
from langchain_core.prompts import ChatPromptTemplate
from langchain_core.runnables import RunnableLambda, RunnablePassthrough
from pydantic import BaseModel

from rag_eval_hooks import Sample
from rag_eval_hooks.config import limits
from rag_eval_hooks_langchain import record_contexts
from tests.matrix.langchain.kit import (
    ASKED,
    PASSAGES,
    PROMPT,
    QUESTION,
    SHOWN,
    WORDS,
    Chat,
    answer_to,
    call,
    joined,
    reader,
    store,
    top,
)
from tests.matrix.langchain.lcel import plain
from tests.matrix.world import World
from tests.support.langchain_requests import Fixed, config, only, texts

ONE, TWO = Document("one"), Document("two")
QUERY = "what the retriever is asked"


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


def asked(world: World, given: Any, outputs: Any) -> Sample:
    """Return the sample of a chain that retrieves, and gives out a value."""

    def answer(_: Any) -> Any:
        Fixed(documents=[TWO]).invoke(QUERY)
        return outputs

    chain: Any = RunnableLambda(answer)
    chain.invoke(given, config(world))
    return only(world)


@pytest.mark.parametrize(
    ("inputs", "question"),
    [
        ("q", "q"),
        ({"question": "q", "language": "en"}, "q"),
        ({"topic": "q", "k": 3}, "q"),
        ({"one": "a", "two": "b"}, QUERY),
        ({"messages": [SystemMessage("s"), HUMAN, AIMessage("a")]}, "q"),
        ({"messages": [{"role": "user", "content": "q"}]}, "q"),
        ({"messages": [("human", "first"), ("ai", "a"), ("user", "q")]}, "q"),
        ({"messages": "q"}, "q"),
        ({"messages": [HumanMessage("q")], "question": "", "answer": ""}, "q"),
        ({"question": "", "query": " ", "input": "q"}, "q"),
        ({"question": "", "language": "en"}, QUERY),
        ([HumanMessage([{"type": "text", "text": "q"}, FILE])], "q"),
        ([{"role": "user", "content": [{"text": "q"}, FILE]}], "q"),
        (ChatPromptTemplate.from_template("{x}").invoke({"x": "q"}), "q"),
        (Model(), "q"),
        (7, QUERY),
    ],
)
def test_the_question_is_read_in_every_form(inputs: Any, question: str, world: World) -> None:
    """Texts, known keys, messages in all their forms, states that are objects."""
    assert asked(world, inputs, "a").question == question


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
        ({"messages": [HumanMessage("q"), AIMessage("a")], "result": {"n": 3}}, "a"),
        ({"structured_response": Kind.YES, "messages": [AIMessage("Returning")]}, '"yes"'),
        ({"raw": AIMessage("a"), "parsed": None, "parsing_error": "e"}, "a"),
        ({"raw": AIMessage(""), "parsed": {"n": 1}, "parsing_error": None}, '{"n": 1}'),
        ({"result": [ONE]}, None),
        ({"answer": []}, '{"answer": []}'),
        (7, "7"),
    ],
)
def test_the_answer_is_read_in_every_form(outputs: Any, answer: str | None, world: World) -> None:
    """An answer of an earlier turn is never taken for that of this one."""
    assert asked(world, "q", outputs).answer == answer


VERDICT = {"sources": [{"kind": "yes", "day": "2024-05-01"}]}


@pytest.mark.parametrize("place", ["alone", "named", "parsed"])
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
def test_a_structured_answer_is_the_json_of_itself(
    value: Any, plain: Any, place: str, world: World
) -> None:
    """Alone, under a known name and as what was parsed: its own JSON, and nothing around it."""
    outputs = {
        "alone": value,
        "named": {"question": "q", "context": [ONE], "answer": value},
        "parsed": {"raw": AIMessage("r"), "parsed": value, "parsing_error": None},
    }[place]
    assert json.loads(asked(world, "q", outputs).answer or "") == plain


@pytest.mark.parametrize("handed_on", [False, True])
@pytest.mark.parametrize(
    "value",
    [
        [{"page_content": "one", "metadata": {"n": 1}}],
        [{"text": "one", "score": 0.5}],
        ONE,
        [ONE, None],
        [None, (ONE, 0.5)],
    ],
)
def test_documents_under_their_name_are_found_in_every_form(
    value: Any, handed_on: bool, world: World
) -> None:
    """Mappings, one alone, by name, with gaps; a step that hands them on has found nothing."""

    def answer(_: Any) -> str:
        found: Any = RunnableLambda(lambda given: {"docs": value} if handed_on is False else given)
        if handed_on:
            Fixed(documents=[TWO]).invoke(QUERY)
        found.invoke({"docs": value} if handed_on else "q")
        return "a"

    chain: Any = RunnableLambda(answer)
    chain.invoke("q", config(world))
    assert texts(only(world)) == (["two"] if handed_on else ["one"])


def sample_of(world: World) -> Sample:
    (seen,) = world.seen()
    return seen.sample


@pytest.mark.parametrize("key", ["session_id", "thread_id", "conversation_id"])
@pytest.mark.parametrize("place", ["metadata", "configurable"])
def test_the_session_is_found_in_metadata_and_in_configurable(
    key: str, place: str, world: World
) -> None:
    """The conversation is on the sample and on the span wherever the run's config names it."""
    told: Any = {**config(world), place: {key: "s1", "user_id": "u1"}}
    plain().invoke(QUESTION, told)
    assert (sample_of(world).session_id, sample_of(world).user_id) == ("s1", "u1")
    root = next(s for s in world.exporter.get_finished_spans() if s.parent is None)
    assert (root.attributes or {})["session.id"] == "s1"
    assert (root.attributes or {})["user.id"] == "u1"


def test_step_metadata_completes_the_roots(world: World) -> None:
    """A reference that is bound to a part of the chain reaches the sample; the root's wins."""
    chain = plain().with_config(metadata={"reference": "r", "user_id": "inner", "free": 1})
    outer: Any = RunnableLambda(lambda question: chain.invoke(question))
    outer.invoke(QUESTION, {**config(world), "metadata": {"user_id": "outer", "k": 2}})
    sample = sample_of(world)
    assert (sample.reference, sample.user_id) == ("r", "outer")
    assert {k: v for k, v in sample.metadata.items() if k in ("k", "free")} == {"k": 2}


def test_rewritten_question_is_kept_with_the_question(world: World) -> None:
    """The question stays what the user asked; what the retriever was asked is in the metadata."""
    better = WORDS("At what time does the ferry to Skarn leave?")
    retriever = store().as_retriever(search_kwargs={"k": 2})
    inputs: Any = {
        SHOWN: RunnableLambda(lambda _: better) | retriever | joined,
        ASKED: RunnablePassthrough(),
    }
    (inputs | PROMPT | reader()).invoke(QUESTION, config(world))
    assert sample_of(world).question == QUESTION
    assert sample_of(world).metadata["condensed_question"] == better


@pytest.mark.parametrize("way", ["invoke", "stream"])
def test_keys_choose_question_contexts_and_answer(way: str, world: World) -> None:
    """A name is enough where a state has its own."""

    def ask(given: dict[str, Any]) -> dict[str, Any]:
        return {"notes": [Document("One."), Document("Two.")], "said": "Yes.", "text": "no"}

    chain = RunnableLambda(ask)
    told = config(world, question="topic", contexts="notes", answer="said")
    inputs = {"topic": "Is it so?", "question": "not this"}
    list(chain.stream(inputs, told)) if way == "stream" else chain.invoke(inputs, told)
    sample = sample_of(world)
    assert (sample.question, texts(sample), sample.answer) == (
        "Is it so?",
        ["One.", "Two."],
        "Yes.",
    )


class Hit:
    """Result of an application's own client."""

    __slots__ = ("_said",)

    def __init__(self, said: str) -> None:
        self._said = said


OPTIONS: dict[str, tuple[Any, Any, Callable[[Sample], Any]]] = {
    "contexts": ("mine", {"mine": ["a", "b"], "theirs": ["c"]}, texts),
    "answer": ("mine", {"mine": "a b", "theirs": "c"}, lambda sample: [sample.answer]),
    "document_keys": (["mine"], {"mine": []}, texts),
    "as_context": (lambda one: getattr(one, "_said", None), [Hit("a"), Hit("b")], texts),
}
"""Of one interaction: its value, what a chain gives out, and what follows on the sample."""
EXPECTED = {"answer": ["a b"], "document_keys": []}


@pytest.mark.parametrize("handlers_own", [False, True])
@pytest.mark.parametrize("way", ["invoke", "ainvoke", "stream"])
@pytest.mark.parametrize("option", OPTIONS)
def test_one_interaction_may_have_options_of_its_own(
    world: World, option: str, way: str, handlers_own: bool
) -> None:
    """They hold for the calls inside alone, in place of the handler's."""
    value, gives, shown = OPTIONS[option]
    base: dict[str, Any] = {"answer": "theirs", "contexts": "theirs", "document_keys": ["theirs"]}
    base["as_context"] = lambda one: None
    inner: Any = RunnableLambda(lambda _: gives)

    def ask(question: str) -> Any:
        inner.invoke(question)
        Chat(reply=lambda _: "a reply of four words").invoke("a b")
        return gives if isinstance(gives, dict) else "a reply of four words"

    told = config(world, **({option: base[option]} if handlers_own else {}))
    with world.evals.interaction("Is it so?", **{option: value}):
        call(way, RunnableLambda(ask), [QUESTION], told)
    assert shown(sample_of(world)) == EXPECTED.get(option, ["a", "b"])
    assert sample_of(world).question == "Is it so?"


def test_a_callable_that_fails_is_counted_and_the_automatic_choice_serves(world: World) -> None:
    """A mistake in a function of the application's costs nothing but a count."""
    broken: dict[str, Any] = {
        "question": lambda inputs: inputs["no such key"],
        "contexts": lambda outputs: 7,
        "answer": lambda outputs: 7,
    }
    plain().invoke(QUESTION, config(world, **broken))
    sample = sample_of(world)
    assert (sample.question, texts(sample)) == (QUESTION, top())
    assert sample.answer == answer_to(QUESTION, top())
    assert set(world.evals.stats().incidents) == {
        "choice question: TypeError",
        "choice contexts: TypeError",
        "choice answer: TypeError",
    }


def test_contexts_are_recorded_from_inside_a_run(world: World) -> None:
    """Contexts that no event shows are recorded from inside a run, and nowhere else."""

    def ask(question: str) -> str:
        assert record_contexts([PASSAGES[3], (Document(PASSAGES[4], id="d"), 0.5)])
        return str(Chat(reply=lambda _: "Yes, certainly so.").invoke(PASSAGES[4]).content)

    RunnableLambda(ask).invoke(QUESTION, config(world))
    sample = sample_of(world)
    assert sample.contexts is not None
    assert [(c.text, c.id, c.score) for c in sample.contexts] == [(PASSAGES[4], "d", 0.5)]
    assert not record_contexts(["x"])


def test_an_open_interaction_holds_no_more_than_it_may(monkeypatch: pytest.MonkeyPatch) -> None:
    """Text beyond the limit is left out and noted; question and answer are always kept."""
    monkeypatch.setattr(limits, "INTERACTION_CHARS", 50_000)
    world = World(max_text_chars=1000)

    def ask(question: str) -> str:
        model = Chat(reply=lambda _: "y" * 100_000)
        for number in range(200):
            record_contexts([f"{number} " + "x" * 100_000])
            model.invoke("z" * 100_000)
        interactions, chars = world.evals.recorder.opened()
        assert interactions == 1
        assert chars < 610_000
        return "An answer of a few words."

    RunnableLambda(ask).invoke(QUESTION, config(world))
    sample = sample_of(world)
    assert (sample.question, sample.answer) == (QUESTION, "An answer of a few words.")
    assert {"contexts", "prompt"} <= set(sample.cut_parts)
    world.close()
