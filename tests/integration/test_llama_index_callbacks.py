"""LlamaIndex's older callback manager, alone and beside the instrumentation."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest
from llama_index.core.callbacks import CallbackManager

from rag_eval_hooks import RagEval, Status
from rag_eval_hooks_llama_index import RagEvalHandler
from tests.matrix.llama_index.helpers import engine, samples
from tests.matrix.llama_index.kit import (
    QUESTION,
    QUESTIONS,
    Scripted,
    answer_to,
    top,
)
from tests.matrix.world import World

pytest_plugins = ["tests.matrix.llama_index.fixtures"]
pytestmark = [
    pytest.mark.filterwarnings("ignore::DeprecationWarning"),
    pytest.mark.usefixtures("own_loop"),
]


def test_callbacks_and_instrumentation_make_one_sample(world: World) -> None:
    """With both on, an interaction is one sample."""
    manager = CallbackManager([RagEvalHandler(world.evals)])
    made = engine()
    made.callback_manager = manager
    made.retriever.callback_manager = manager
    made._response_synthesizer.callback_manager = manager
    made.query(QUESTION)
    assert len(samples(world)) == 1


def by_callbacks(evals: RagEval, **more: Any) -> Any:
    """A query engine that reports to the older callback manager only."""
    made = engine(**more)
    manager = CallbackManager([RagEvalHandler(evals)])
    made.callback_manager = manager
    made.retriever.callback_manager = manager
    made._response_synthesizer.callback_manager = manager
    return made


@pytest.mark.parametrize("mode", ["compact", "refine", "tree_summarize", "simple_summarize"])
def test_callbacks_alone_capture_a_query(
    mode: str, plain_world: World, own_loop: asyncio.AbstractEventLoop
) -> None:
    """The older callback manager alone tells a query engine's interaction."""
    made = by_callbacks(plain_world.evals, response_mode=mode)
    made.query(QUESTION)
    own_loop.run_until_complete(made.aquery(QUESTIONS[1]))
    found = {
        s.question: ([c.text for c in s.contexts or ()], s.status) for s in samples(plain_world)
    }
    assert found == {question: (top(question), Status.OK) for question in QUESTIONS}
    assert not plain_world.disorder({})


def test_callbacks_alone_capture_a_stream(plain_world: World) -> None:
    """So they do a stream that is read later."""
    response = by_callbacks(plain_world.evals, streaming=True).query(QUESTION)
    assert len(plain_world.evals.recorder) == 1
    assert "".join(response.response_gen)
    (sample,) = samples(plain_world)
    assert (sample.answer, sample.status) == (answer_to(QUESTION, top()), Status.OK)


def test_callbacks_alone_tell_failures(plain_world: World) -> None:
    """An exception passes through them and is the interaction's status."""

    def dead(_: object) -> str:
        raise ConnectionError

    made = by_callbacks(plain_world.evals, llm=Scripted(reply=dead))
    with pytest.raises(ConnectionError):
        made.query(QUESTION)
    (sample,) = samples(plain_world)
    assert (sample.status, sample.error_type) == (Status.ERROR, "ConnectionError")
    assert not plain_world.disorder({})


def test_callbacks_end_what_they_cannot_read(
    plain_world: World, monkeypatch: pytest.MonkeyPatch
) -> None:
    """So does the older callback manager's handler."""

    def broken(*_: object) -> None:
        raise ValueError

    made = by_callbacks(plain_world.evals)
    monkeypatch.setattr("rag_eval_hooks_llama_index.values.note_sources", broken)
    made.query(QUESTION)
    assert len(plain_world.evals.recorder) == 0
    assert [sample.status for sample in samples(plain_world)] == [Status.OK]
    assert plain_world.evals.stats().incidents["capture on_event_end: ValueError"] >= 1
