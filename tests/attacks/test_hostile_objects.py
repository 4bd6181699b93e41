"""Objects that raise whatever is done with them reach no host and stop no request."""

from __future__ import annotations

import copy
import uuid
from collections.abc import Callable
from typing import Any

import numpy
import pytest
from hypothesis import given
from hypothesis import strategies as st

from rag_eval_hooks import RagEval
from rag_eval_hooks_langchain import RagEvalCallbackHandler
from tests.support.evaluation import total

RAISED = (ValueError, RecursionError, MemoryError, StopIteration, LookupError, UnicodeDecodeError)
DONE = ("str", "repr", "len", "iter", "getitem", "bool", "hash", "eq", "getattr", "deepcopy")


def hostile(raised: type[Exception], done: frozenset[str]) -> Any:
    def raises(*_: object, **__: object) -> Any:
        if raised is UnicodeDecodeError:
            raise UnicodeDecodeError("utf-8", b"x", 0, 1, "no")
        raise raised

    return type("Hostile", (), {f"__{name}__": raises for name in done})()


hostiles = st.builds(hostile, st.sampled_from(RAISED), st.frozensets(st.sampled_from(DONE)))
KEYS = st.sampled_from(("question", "input", "messages", "text"))
values = st.one_of(
    hostiles,
    st.sampled_from([numpy.array(["a", "b"]), 10**5000, 5, "\ud800", {"session_id": "\ud800"}]),
    st.lists(hostiles, max_size=2),
    st.dictionaries(KEYS, hostiles, max_size=2),
)


def entrances(evals: RagEval, value: Any, other: Any) -> dict[str, Callable[[], object]]:
    handler = RagEvalCallbackHandler(evals)
    run, child = uuid.uuid4(), uuid.uuid4()

    def interaction() -> None:
        told: Any = {"name": other, "tags": value, "metadata": other}
        with evals.interaction(question=value, **told) as request:
            request.metadata(value, thread_id=other)
            request.contexts([other])
            request.answer(value)

    def request() -> None:
        handler.on_chain_start({"name": "x"}, {"input": value}, run_id=run)
        handler.on_tool_start({"name": "t"}, "q", run_id=child, parent_run_id=run, inputs=value)
        handler.on_tool_end(other, run_id=child)
        handler.on_chain_end({"output": value}, run_id=run)

    return {
        "offer": lambda: evals.submit({"question": value, "contexts": [other], "answer": value}),
        "offer it": lambda: evals.submit(value),
        "interaction": interaction,
        "a request": request,
        "its beginning": lambda: handler.on_chain_start(value, other, run_id=uuid.uuid4()),
        "documents": lambda: handler.on_retriever_end(value, run_id=uuid.uuid4()),
        "messages": lambda: handler.on_chat_model_start({}, value, run_id=uuid.uuid4()),
        "feedback": lambda: evals.feedback(value, score=other, label=value),
        "a reply": lambda: handler.on_llm_end(value, run_id=uuid.uuid4()),
    }


@given(value=values, other=values)
def test_hostile_object_at_any_entrance_raises_nothing(value: Any, other: Any) -> None:
    with RagEval("lexical", sinks=[]) as evals:
        for name, call in entrances(evals, value, other).items():
            try:
                call()
            except Exception as error:  # noqa: BLE001 - what reaches the host, of any kind
                pytest.fail(f"{name} raised {type(error).__name__}")
        assert evals.flush(300)
        stats = evals.stats()
        assert total(stats) == stats.offered


def test_copied_handler_and_evaluator_are_themselves() -> None:
    with RagEval("lexical", sinks=[]) as evals:
        handler = RagEvalCallbackHandler(evals)
        held: dict[str, Any] = {"callbacks": [handler], "evals": evals}
        copied = copy.deepcopy(held)
        assert copied["callbacks"][0] is handler
        assert copied["evals"] is evals
        assert copy.copy(evals) is evals
