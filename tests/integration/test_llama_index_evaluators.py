"""Evaluators of LlamaIndex and ours take one another's place."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from typing import Any

import pytest
from llama_index.core.evaluation import (
    BaseEvaluator,
    BatchEvalRunner,
    CorrectnessEvaluator,
    EvaluationResult,
    FaithfulnessEvaluator,
)

from rag_eval_hooks import Cause, Context, NotScored, RagEval, Sample
from rag_eval_hooks.judges.llm import CallableJudge
from rag_eval_hooks.score import UNIT, Scale
from rag_eval_hooks_llama_index import SuiteEvaluator, llama_index_metric
from tests.matrix.llama_index.kit import says

pytestmark = pytest.mark.filterwarnings("ignore::DeprecationWarning")

SAMPLE = Sample(
    question="When was the tower built?",
    contexts=(Context(text="The tower was built in 1921."),),
    answer="The tower was built in 1921.",
    reference="In 1921.",
)


class Odd(BaseEvaluator):
    def __init__(self, result: Any) -> None:
        self.result = result

    def _get_prompts(self) -> dict[str, Any]:
        return {}

    def _update_prompts(self, prompts: Any) -> None:
        pass

    async def aevaluate(
        self,
        query: str | None = None,
        response: str | None = None,
        contexts: Sequence[str] | None = None,
        **kwargs: Any,
    ) -> EvaluationResult:
        if self.result == "never":
            await asyncio.Event().wait()
        if isinstance(self.result, Exception):
            raise self.result
        result: EvaluationResult = self.result
        return result


def outcome_of(evaluator: BaseEvaluator, **options: Any) -> Any:
    metric = llama_index_metric(evaluator, id="own.metric", **options)
    with RagEval(metrics=[metric], judge="heuristic") as evals:
        return evals.evaluate(SAMPLE)["own.metric"]


def test_metric_of_their_evaluator_keeps_its_scale() -> None:
    cases: list[tuple[BaseEvaluator, Scale, tuple[float, float, str]]] = [
        (FaithfulnessEvaluator(llm=says("YES")), UNIT, (1.0, 1.0, "pass")),
        (CorrectnessEvaluator(llm=says("4.0\nAlmost.")), Scale(1, 5), (4.0, 0.75, "pass")),
        (Odd(EvaluationResult(passing=False)), UNIT, (0.0, 0.0, "fail")),
    ]
    asyncio.set_event_loop(None)
    for evaluator, scale, score in cases:
        outcome = outcome_of(evaluator, scale=scale)
        assert (outcome.value, outcome.normalized, outcome.label) == score, evaluator
        assert outcome.annotator == type(evaluator).__name__


def test_no_score_has_a_cause() -> None:
    cases: list[tuple[object, Cause]] = [
        (EvaluationResult(invalid_result=True), Cause.JUDGE_FAILED),
        (EvaluationResult(), Cause.UNDEFINED),
        (EvaluationResult(score=float("nan")), Cause.UNDEFINED),
        (EvaluationResult(score=7.0), Cause.METRIC_FAILED),
        (ValueError("x"), Cause.METRIC_FAILED),
        ("never", Cause.TIMEOUT),
        ("no result", Cause.METRIC_FAILED),
    ]
    for result, cause in cases:
        outcome = outcome_of(Odd(result), timeout=0.05)
        assert isinstance(outcome, NotScored), result
        assert outcome.cause is cause, result


def down(messages: Any) -> str:
    raise ConnectionError("the judge is down")


async def in_their_runner(evals: RagEval, answers: Sequence[str]) -> list[EvaluationResult]:
    runner = BatchEvalRunner({"faithful": SuiteEvaluator(evals, "ragas.faithfulness")}, workers=8)
    contexts = [[context.text for context in SAMPLE.contexts or ()]] * len(answers)
    results = await runner.aevaluate_response_strs(
        queries=[SAMPLE.question] * len(answers),
        response_strs=list(answers),
        contexts_list=contexts,
    )
    return list(results["faithful"])


async def test_ours_in_their_batch_runner() -> None:
    due = {
        "The tower was built in 1921.": (1.0, True, False),
        "The tower was built in 1850.": (0.0, False, False),
        "The tower has 12 bells.": (None, None, True),
    }
    answers = list(due) * 7
    with RagEval(metrics=["ragas.faithfulness"], judge="heuristic") as evals:
        results = await in_their_runner(evals, answers)
        assert evals.stats().offered == 0
    told = [(r.response, (r.score, r.passing, r.invalid_result)) for r in results]
    assert told == [(text, due[text]) for text in answers]
    assert all(r.contexts == [c.text for c in SAMPLE.contexts or ()] for r in results)
    with RagEval(metrics=["ragas.faithfulness"], judge=CallableJudge(down)) as evals:
        for result in await in_their_runner(evals, answers[:3]):
            assert (result.score, result.passing, result.invalid_result) == (None, None, True)
            assert str(result.invalid_reason).startswith("judge_failed: ")
