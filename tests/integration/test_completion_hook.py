"""Completions that the real `opentelemetry-util-genai` hands over."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import pytest

from rag_eval_hooks.completion_hook import RagEvalCompletionHook, completion_hook
from rag_eval_hooks.instrumentor import RagEvalInstrumentor
from rag_eval_hooks_langchain import disable, enable
from tests.matrix.langchain.kit import Chat, store, top
from tests.matrix.langchain.lcel import plain
from tests.matrix.world import World
from tests.support.langchain_requests import config, only, texts
from tests.support.variation import Variation, run_seed

pytest.importorskip("opentelemetry.util.genai")
from opentelemetry.util.genai import types
from opentelemetry.util.genai.completion_hook import CompletionHook
from opentelemetry.util.genai.handler import TelemetryHandler

Turn = tuple[str, Any]


def message(role: str, value: Any) -> types.InputMessage:
    if role == "tool":
        return types.InputMessage(role, [types.ToolCallResponsePart(response=value, id="c1")])
    if role == "asks":
        part = types.ToolCallRequestPart(arguments={"q": value}, name="search", id="c1")
        return types.InputMessage("assistant", [part])
    # Instrumentations write a role as a member of the enum, or as its value.
    named = role if len(value) % 2 else types.Role(role)
    return types.InputMessage(named, [types.TextPart(value)])


def complete(
    world: World, turns: Sequence[Turn], answer: str | None, scope: str = "any.client"
) -> None:
    handler = TelemetryHandler(
        tracer_provider=world.provider,
        completion_hook=RagEvalCompletionHook(world.evals),
        instrumentation_scope_name=scope,
    )
    with handler.inference("openai", request_model="m") as call:
        call.input_messages = [message(role, value) for role, value in turns]
        parts: list[Any] = [] if answer is None else [types.TextPart(answer)]
        call.output_messages = [types.OutputMessage("assistant", parts, "stop")]
        call.response_id = "r-1"


def test_the_last_completion_of_an_agent_is_a_request(world: World) -> None:
    drawn = Variation(run_seed())
    old, found = drawn.passage(), drawn.passages(2)
    question, answer = drawn.question(), f"{drawn.sentence()} {drawn.sentence()}"
    earlier: list[Turn] = [("user", drawn.question()), ("asks", "x"), ("tool", old)]
    now: list[Turn] = [*earlier, ("assistant", drawn.sentence()), ("user", question), ("asks", "y")]
    complete(world, [("system", drawn.sentence()), *now], None)
    complete(world, [*now, ("tool", {"results": found})], f"{found[0]} {answer}")
    sample = only(world)
    assert (sample.question, sample.answer) == (question, f"{found[0]} {answer}")
    assert texts(sample) == found
    assert sample.response_id == "r-1"


def test_a_completion_that_is_shown_a_captured_search_is_joined_with_it(world: World) -> None:
    question = "When does the ferry leave?"
    enable(world.evals)
    try:
        found = store().similarity_search(question, k=2)
        prompt = "\n\n".join(one.page_content for one in found)
        complete(world, [("system", prompt), ("user", question)], "At 07:40.")
    finally:
        disable()
    sample = only(world)
    assert (sample.question, sample.answer) == (question, "At 07:40.")
    assert texts(sample) == top(question)


@pytest.mark.parametrize("scope", ["any.client", "opentelemetry.instrumentation.genai.langchain"])
def test_a_call_of_a_framework_that_is_captured_is_captured_once(scope: str, world: World) -> None:
    def reply(messages: Any) -> str:
        complete(world, [("user", messages[-1].text)], "an answer", scope)
        return "an answer"

    plain(model=Chat(reply=reply)).invoke("a question?", config(world))
    assert only(world).answer == "an answer"
    models = [run for run in world.exporter.get_finished_spans() if run.name == "chat scripted"]
    assert len(models) == 1


def test_completions_without_retrieved_text_are_no_requests(world: World) -> None:
    complete(world, [("user", "Hello?")], "Hello.")
    complete(world, [], None)
    assert world.seen() == []
    assert not world.evals.stats().incidents


def test_the_entry_point_makes_a_hook_of_the_process(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("RAG_EVAL_METRICS", "lexical")
    instrumentor = RagEvalInstrumentor()
    assert instrumentor.evals is None
    try:
        assert isinstance(completion_hook(), CompletionHook)
        assert instrumentor.evals is not None
        assert completion_hook()._recorder is instrumentor.evals.recorder
    finally:
        instrumentor.uninstrument()
        if instrumentor.evals is not None:
            instrumentor.evals.shutdown()
            instrumentor.evals = None
