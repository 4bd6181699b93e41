"""Handlers as objects: copied, looked at, enabled and disabled."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st
from langchain_core.runnables import RunnableLambda

from rag_eval_hooks import RagEval
from rag_eval_hooks_langchain import RagEvalCallbackHandler
from rag_eval_hooks_llama_index.vocabulary import form_of


@given(st.sampled_from(["workflows", "workflow", "app.workflows"]), st.from_regex(r"[a-z]{1,9}"))
def test_form_of_application_class_in_a_package_named_workflows_is_its_own(
    package: str, module: str
) -> None:
    assert form_of(type("Found", (), {"__module__": f"{package}.{module}"})) is None


class Told:
    """An object of the application's own."""

    def __init__(self, text: str) -> None:
        self.text = text


@given(st.lists(st.integers(0, 3), min_size=1, max_size=4))
def test_as_context_gets_the_application_objects_and_no_copies(kinds: list[int]) -> None:
    seen: list[object] = []

    def read(value: object) -> str | None:
        seen.append(value)
        return value.text if isinstance(value, Told) else None

    text = "The ferry to Skarn leaves at nine from the north quay."
    values = [[Told(text), {"n": 1}, "text", 7][kind] for kind in kinds]
    evals = RagEval(sinks=[])
    handler = RagEvalCallbackHandler(evals, as_context=read)

    def step(_: str) -> dict[str, object]:
        return {"values": values}

    chain = RunnableLambda(step) | RunnableLambda(str)
    chain.invoke("When?", {"callbacks": [handler]})
    assert evals.flush(60)
    assert all(type(value) in (Told, dict) for value in seen)
    assert sum(isinstance(value, Told) for value in seen) >= kinds.count(0)
    assert evals.stats().incidents == {}
    evals.shutdown()
