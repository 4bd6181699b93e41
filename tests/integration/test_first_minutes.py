"""First attempts of new users are understood, or answered by what to write."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from langchain_core.documents import Document
from llama_index.core.schema import NodeWithScore, TextNode
from opentelemetry.sdk.trace import TracerProvider

import rag_eval_hooks_langchain
import rag_eval_hooks_llama_index
from rag_eval_hooks import Cause, RagEval, Sample, evaluator_metric
from rag_eval_hooks.testing import ScriptedJudge
from tests.support.evaluation import sample

ShutDown = Callable[[RagEval], RagEval]


@given(text=st.text(min_size=1))
def test_documents_of_any_kind_are_contexts(text: str) -> None:
    node = TextNode(text=text)
    mappings = [{"text": text}, {"page_content": text, "metadata": {}}, {"content": text}]
    for document in (text, *mappings, Document(page_content=text), node, NodeWithScore(node=node)):
        (context,) = Sample(question="q", contexts=[document]).contexts or ()  # type: ignore[arg-type]
        assert context.text == text


async def test_mapping_and_keywords_are_evaluated_as_their_sample(
    shut_down_after: ShutDown,
) -> None:
    evals = shut_down_after(RagEval("lexical"))
    plain: dict[str, Any] = {"question": "q", "answer": "see page 1"}
    expected = evals.evaluate(Sample(**plain))
    assert evals.evaluate(plain) == evals.evaluate(**plain) == expected
    assert await evals.aevaluate({"user_input": "q", "response": "see page 1"}) == expected
    assert evals.submit(plain)


class BrokenProvider(TracerProvider):
    """Raises whatever it is asked for."""

    def get_tracer(self, *args: Any, **options: Any) -> Any:
        raise OSError("none today")

    get_meter = get_logger = get_tracer


def test_broken_provider_is_counted_and_samples_are_scored(shut_down_after: ShutDown) -> None:
    for kind in ["tracer_provider", "meter_provider", "logger_provider"]:
        providers: dict[str, Any] = {kind: BrokenProvider()}
        evals = shut_down_after(RagEval("lexical", **providers))
        with evals.interaction("Where?") as it:
            it.answer("see page 3")
        assert evals.flush(300)
        stats = evals.stats()
        assert stats.scored == 1
        assert [one for one in stats.incidents if " provider: " in one]


def test_a_minus_takes_metrics_away() -> None:
    evals = RagEval(["-ragas.noise_sensitivity", "ragas"], ScriptedJudge())
    names = evals.evaluate(sample(reference="r")).keys()
    assert "ragas.noise_sensitivity" not in names
    assert "ragas.faithfulness" in names
    evals.shutdown(1)


def test_a_function_of_a_sample_is_a_metric() -> None:
    async def polite(one: Sample) -> bool:
        return "please" in (one.answer or "")

    def nothing(_: Sample) -> None:
        return None

    class Half:
        def __call__(self, _: Sample) -> float:
            return 0.5

    with RagEval([polite, nothing, lambda _: 0.5, Half()]) as evals:
        outcomes = evals.evaluate({"question": "q", "answer": "a"})
    values = {"own.polite": 0.0, "own.nothing": None, "own.lambda": 0.5, "own.Half": 0.5}
    assert {name: one.value for name, one in outcomes.items()} == values
    assert getattr(outcomes["own.nothing"], "cause", None) == "undefined"


def test_the_console_is_a_sink_by_name(capsys: pytest.CaptureFixture[str]) -> None:
    evals = RagEval([lambda _: 0.25], sinks=["console"])
    evals.submit({"question": "Which colour?", "answer": "Blue."})
    assert evals.flush(300)
    assert "own.lambda" in capsys.readouterr().out
    evals.shutdown(1)


def test_both_integrations_are_enabled_and_disabled_alike(shut_down_after: ShutDown) -> None:
    evals, other = (shut_down_after(RagEval(sinks=[])) for _ in range(2))
    for package in (rag_eval_hooks_langchain, rag_eval_hooks_llama_index):
        package.enable(evals)
        assert len(evals.recorder.unmatched.enabled) == 1
        package.enable(other)
        assert not evals.recorder.unmatched.enabled
        assert len(other.recorder.unmatched.enabled) == 1
        package.disable()
        package.disable()


TOWER = Sample.of(
    {"question": "When?", "contexts": ["In 1921."], "answer": "In 1921.", "reference": "In 1921."}
)


def exact(outputs: dict[str, Any], reference_outputs: dict[str, Any]) -> bool:
    return bool(outputs["answer"] == reference_outputs["answer"])


async def thorough(inputs: dict[str, Any], outputs: dict[str, Any], **_: Any) -> dict[str, Any]:
    found = outputs["answer"] in inputs["contexts"]
    return {"key": "thorough", "score": 0.25 if found else 0.0, "comment": "it is quoted"}


def broken(outputs: dict[str, Any]) -> float:
    raise ValueError("the answer")


def test_a_result_is_a_score_and_no_result_has_a_cause() -> None:
    cases: list[tuple[Any, float | None, Cause | None]] = [
        (exact, 1.0, None),
        (thorough, 0.25, None),
        (broken, None, Cause.METRIC_FAILED),
    ]
    for evaluator, value, cause in cases:
        with RagEval(metrics=[evaluator_metric(evaluator)], judge="heuristic") as evals:
            outcome = evals.evaluate(TOWER)[f"evaluator.{evaluator.__name__}"]
            assert bool(evals.stats().incidents) is (cause is Cause.METRIC_FAILED), evaluator
        assert (outcome.value, getattr(outcome, "cause", None)) == (value, cause), evaluator
        assert cause or outcome.annotator == evaluator.__name__, evaluator
