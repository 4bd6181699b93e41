"""Metadata, choices, limits, interrupts, records, and requests in a crowd."""

from __future__ import annotations

from typing import Any

import pytest
from langchain_core.documents import Document
from langchain_core.runnables import RunnableLambda, RunnablePassthrough

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
from tests.support.langchain_requests import config, texts
from tests.support.variation import Variation, seeds


def only(world: World) -> Sample:
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
    assert (only(world).session_id, only(world).user_id) == ("s1", "u1")
    root = next(s for s in world.exporter.get_finished_spans() if s.parent is None)
    assert (root.attributes or {})["session.id"] == "s1"
    assert (root.attributes or {})["user.id"] == "u1"


def test_metadata_of_a_step_tells_what_the_root_does_not(world: World) -> None:
    """A reference that is bound to a part of the chain reaches the sample; the root's wins."""
    chain = plain().with_config(metadata={"reference": "r", "user_id": "inner", "free": 1})
    outer: Any = RunnableLambda(lambda question: chain.invoke(question))
    outer.invoke(QUESTION, {**config(world), "metadata": {"user_id": "outer", "k": 2}})
    sample = only(world)
    assert (sample.reference, sample.user_id) == ("r", "outer")
    assert {k: v for k, v in sample.metadata.items() if k in ("k", "free")} == {"k": 2}


def test_a_rewritten_question_is_kept_beside_the_question(world: World) -> None:
    """The question stays what the user asked; what the retriever was asked is in the metadata."""
    better = WORDS("At what time does the ferry to Skarn leave?")
    retriever = store().as_retriever(search_kwargs={"k": 2})
    inputs: Any = {
        SHOWN: RunnableLambda(lambda _: better) | retriever | joined,
        ASKED: RunnablePassthrough(),
    }
    (inputs | PROMPT | reader()).invoke(QUESTION, config(world))
    assert only(world).question == QUESTION
    assert only(world).metadata["condensed_question"] == better


@pytest.mark.parametrize("way", ["invoke", "stream"])
def test_keys_choose_question_contexts_and_answer(way: str, world: World) -> None:
    """A name is enough where a state has its own."""

    def ask(given: dict[str, Any]) -> dict[str, Any]:
        return {"notes": [Document("One."), Document("Two.")], "said": "Yes.", "text": "no"}

    chain = RunnableLambda(ask)
    told = config(world, question="topic", contexts="notes", answer="said")
    inputs = {"topic": "Is it so?", "question": "not this"}
    list(chain.stream(inputs, told)) if way == "stream" else chain.invoke(inputs, told)
    sample = only(world)
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


@pytest.mark.parametrize("handlers_own", [False, True])
@pytest.mark.parametrize("way", ["invoke", "ainvoke", "stream"])
@pytest.mark.parametrize("seed", seeds(5))
def test_one_interaction_may_have_options_of_its_own(
    world: World, seed: int, way: str, handlers_own: bool
) -> None:
    """Options of one interaction hold for the calls inside alone, in place of the handler's."""
    drawn = Variation(seed)
    found, others, asked, said = drawn.passages(2), drawn.passages(2), *map(drawn.sentence, (7, 9))
    key, other, name = drawn.name(), drawn.name(), drawn.name()
    hits = list(map(Hit, others))
    makes: dict[str, Any] = {
        "contexts": (other, {key: found, other: others}),
        "answer": (other, {key: said, other: others[0]}),
        "document_keys": ([other], {other: []}),
        "as_context": (lambda one: one._said if isinstance(one, Hit) else None, hits),
        "root": (name, None),
    }
    option, (value, gives) = list(makes.items())[seed % len(makes)]
    base: dict[str, Any] = {"answer": key, "contexts": key, "document_keys": [key], "root": "no"}
    base |= {"as_context": lambda one: None}
    handler = {option: base[option]} if handlers_own else {}

    def give(_: Any) -> Any:
        return {"text": said, "documents": others} if gives is None else gives

    inner: Any = RunnableLambda(give, name=name)

    def ask(_: Any) -> Any:
        shown = inner.invoke(asked)
        texts = [one._said for one in shown] if isinstance(shown, list) else [str(shown)]
        Chat(reply=lambda _: said).invoke("\n".join(texts))
        return shown if isinstance(shown, dict) else said

    told = config(world, **handler)
    with world.evals.interaction(asked, **{option: value}):
        call(way, RunnableLambda(ask, name="outer"), [asked], told)
    sample = only(world)
    assert not world.evals.stats().incidents
    assert sample.question == asked
    if option == "answer":
        assert sample.answer == others[0]
    elif option == "document_keys":
        assert texts(sample) == []
    else:
        assert texts(sample) == others
    if option == "root":
        assert [line for line in world.seen()[0].spans if "chat" in line] == []


def test_a_callable_that_fails_is_counted_and_the_automatic_choice_serves(world: World) -> None:
    """A mistake in a function of the application's costs nothing but a count."""
    broken: dict[str, Any] = {
        "question": lambda inputs: inputs["no such key"],
        "contexts": lambda outputs: 7,
        "answer": lambda outputs: 7,
    }
    plain().invoke(QUESTION, config(world, **broken))
    sample = only(world)
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
    sample = only(world)
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
    sample = only(world)
    assert (sample.question, sample.answer) == (QUESTION, "An answer of a few words.")
    assert {"contexts", "prompt"} <= set(sample.cut_parts)
    world.close()
