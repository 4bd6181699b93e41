"""A real LangChain chain with the handler: spans, exceptions, memory and options."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest
from langchain_core.callbacks import BaseCallbackHandler
from langchain_core.documents import Document
from langchain_core.language_models import FakeListLLM
from langchain_core.messages import AIMessage
from langchain_core.runnables import RunnableLambda
from opentelemetry import trace
from opentelemetry.sdk.trace import ReadableSpan

from rag_eval_hooks.config import limits
from rag_eval_hooks_langchain import RagEvalCallbackHandler, record_contexts
from tests.matrix.langchain.kit import PASSAGES, QUESTION, Chat, answer_to, call, top
from tests.matrix.langchain.lcel import plain
from tests.matrix.world import World
from tests.support.langchain_requests import Fixed, config, only, texts
from tests.support.variation import Variation, run_seed

ANSWER = answer_to(QUESTION, top())


def reply(_: Any) -> AIMessage:
    return AIMessage(PASSAGES[0])


def fail(_: Any) -> str:
    raise ConnectionError("the model is down")


def spans(world: World, name: str = "") -> list[ReadableSpan]:
    world.evals.flush(300)
    return [s for s in world.exporter.get_finished_spans() if s.name.startswith(name)]


def attributes(world: World, name: str) -> dict[str, Any]:
    return dict(spans(world, name)[0].attributes or {})


def test_documents_are_on_the_sample_and_content_is_on_spans_when_asked_for(world: World) -> None:
    metadata = {"question_id": "Q1", "reference": "ref", "thread_id": "s", "k": 1}
    told: Any = {**config(world), "metadata": metadata, "tags": ["blue"]}
    told["configurable"] = {"user_id": "u"}
    found = Document(PASSAGES[0], id="d1", metadata={"score": 0.5, "page": 1, "x": []})
    shown = RunnableLambda(lambda documents: documents[0].page_content)
    (Fixed(documents=[found]) | shown | Chat(reply=reply)).invoke(QUESTION, told)
    sample = only(world)
    assert (sample.question_id, sample.reference) == ("Q1", "ref")
    assert (sample.session_id, sample.user_id) == ("s", "u")
    assert (dict(sample.metadata), sample.tags) == ({"k": 1}, ("blue",))
    (first,) = sample.contexts or ()
    assert (first.id, first.score, dict(first.metadata)) == ("d1", 0.5, {"score": 0.5, "page": 1})
    context = spans(world, "invoke_workflow")[0].context
    assert sample.trace_id == f"{context.trace_id:032x}"
    assert sample.span_id == f"{context.span_id:016x}"
    root, retrieval = attributes(world, "invoke_workflow"), attributes(world, "retrieval")
    assert (root["input.value"], root["output.value"]) == (QUESTION, PASSAGES[0])
    assert (root["session.id"], root["user.id"]) == ("s", "u")
    one = "retrieval.documents.0.document"
    told = [retrieval[f"{one}.{key}"] for key in ("content", "id", "score")]
    assert told == [PASSAGES[0], "d1", 0.5]


def test_metadata_of_steps_completes_the_roots_and_the_frameworks_is_left_out(world: World) -> None:
    mine = {"ls_team": "a", "lc_cost": 1, "langgraph_tier": "gold", "checkpoint_age": 3}
    theirs = {"ls_provider": "x", "langgraph_plan": "x"}
    chain = plain().with_config(metadata={"reference": "r", "user_id": "inner", "free": 1})
    outer: Any = RunnableLambda(lambda question: chain.invoke(question))
    told = {**config(world), "tags": ["mine", "branch:main"]}
    outer.invoke(QUESTION, {**told, "metadata": {"user_id": "outer", **mine, **theirs}})
    sample = only(world)
    assert (sample.reference, sample.user_id) == ("r", "outer")
    assert set(sample.tags) == {"mine", "branch:main"}
    assert sample.metadata == mine


@pytest.mark.parametrize("way", ["stream", "ainvoke"])
def test_the_rag_span_stands_under_the_current_span_and_leaves_it(way: str, world: World) -> None:
    with world.provider.get_tracer("app").start_as_current_span("request") as outer:
        call(way, plain(), [QUESTION], config(world))
        assert trace.get_current_span() is outer
    (span,) = spans(world, "invoke_workflow")
    assert span.parent == outer.get_span_context()


@pytest.mark.parametrize("run_id", ["request-7", "235bba55-c8e2-4beb-a33c-e8fe556716c6"])
def test_runs_have_the_ids_that_the_host_gives(run_id: Any, world: World) -> None:
    try:
        plain().invoke(QUESTION, config(world) | {"run_id": run_id})
    except (TypeError, AttributeError) as error:
        pytest.skip(f"this LangChain takes no such id: {error}")
    assert (texts(only(world)), only(world).answer) == (top(), ANSWER)


# What goes wrong, and whom it reaches.


def test_an_error_reaches_the_caller_and_is_on_the_span(world: World) -> None:
    with pytest.raises(ConnectionError):
        plain(model=Chat(reply=fail)).invoke(QUESTION, config(world))
    (root,) = spans(world, "invoke_workflow")
    assert (root.attributes or {})["error.type"] == "ConnectionError"
    assert (root.attributes or {})["rag.eval.reason"] == "error"
    assert not root.status.is_ok


def test_a_handler_that_fails_never_reaches_the_application(
    world: World, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    def broken(*_: object, **__: object) -> None:
        raise RuntimeError("bug")

    monkeypatch.setattr(world.evals.recorder, "start", broken)
    assert plain().invoke(QUESTION, config(world)) == ANSWER
    assert world.evals.stats().incidents["capture on_chain_start: RuntimeError"] > 0
    assert f"RuntimeError raised at {__file__}:" in caplog.text


class Watching(BaseCallbackHandler):
    run_inline = True

    def __init__(self) -> None:
        self.started = 0

    def on_llm_start(self, *args: Any, **more: Any) -> None:
        self.started += 1


@pytest.mark.parametrize("ours_first", [True, False])
def test_no_handler_misses_a_plain_model(world: World, ours_first: bool) -> None:
    shown: Any = RunnableLambda(lambda found: f"Use {found[0].page_content}")
    chain = Fixed(documents=[Document(PASSAGES[0])]) | shown | FakeListLLM(responses=["At 07:40."])
    watching = Watching()
    handlers = [RagEvalCallbackHandler(world.evals), watching][:: 1 if ours_first else -1]
    asyncio.run(chain.ainvoke("When?", {"callbacks": handlers}))
    assert watching.started == 1
    assert (texts(only(world)), only(world).context_source) == ([PASSAGES[0]], "prompt")


def searching() -> Any:
    shown: Any = Fixed(documents=[Document(PASSAGES[0])]) | RunnableLambda(str)
    return shown | Chat(reply=lambda _: "late", delay=60.0)


@pytest.mark.parametrize("is_lambda", [False, True])
def test_batches_cancelled_in_their_first_tick_leave_nothing_open(
    world: World, is_lambda: bool
) -> None:
    drawn, told = Variation(run_seed()), config(world)
    chain: Any = searching().with_fallbacks([searching()])
    if is_lambda:
        chain = RunnableLambda(searching().ainvoke)
    sizes = [drawn.chance.randint(1, 3) for _ in range(200)]

    async def cancel_all() -> tuple[int, int]:
        began = 0
        for size in sizes:
            task = asyncio.ensure_future(chain.abatch([drawn.question()] * size, told))
            # Its roots begin in the second step of the loop, at the earliest.
            for _ in range(drawn.chance.randint(1, 3)):
                await asyncio.sleep(0)
            began += world.evals.recorder.opened()[0] > 0
            task.cancel()
            await asyncio.gather(task, return_exceptions=True)
        world.evals.stats()
        return began, world.evals.recorder.opened()[0]

    began, left = asyncio.run(cancel_all())
    assert began > 20
    assert left == 0
    assert set(world.evals.stats().dropped) <= {"cancelled"}


def test_an_open_interaction_holds_no_more_than_it_may(monkeypatch: pytest.MonkeyPatch) -> None:
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
    (seen,) = world.seen()
    assert (seen.sample.question, seen.sample.answer) == (QUESTION, "An answer of a few words.")
    assert {"contexts", "prompt"} <= set(seen.sample.cut_parts)
    world.close()


# Options, and contexts that are recorded.


def test_a_callable_that_fails_is_counted_and_the_automatic_choice_serves(world: World) -> None:
    broken: dict[str, Any] = {
        "question": lambda inputs: inputs["no such key"],
        "contexts": lambda outputs: 7,
        "answer": lambda outputs: 7,
    }
    plain().invoke(QUESTION, config(world, **broken))
    (seen,) = world.seen()
    assert (seen.sample.question, texts(seen.sample)) == (QUESTION, top())
    assert seen.sample.answer == ANSWER
    counted = {f"choice {name}: TypeError" for name in broken}
    assert set(world.evals.stats().incidents) == counted


def test_contexts_are_recorded_from_inside_a_run(world: World) -> None:
    def ask(question: str) -> str:
        assert record_contexts([PASSAGES[3], (Document(PASSAGES[4], id="d"), 0.5)])
        return str(Chat(reply=lambda _: "Yes, certainly so.").invoke(PASSAGES[4]).content)

    RunnableLambda(ask).invoke(QUESTION, config(world))
    found = [(c.text, c.id, c.score) for c in only(world).contexts or ()]
    assert found == [(PASSAGES[4], "d", 0.5)]
    assert not record_contexts(["x"])
