"""Evaluators of LlamaIndex and ours take one another's place."""

from __future__ import annotations

import asyncio
import re
from collections.abc import Sequence
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from llama_index.core.evaluation import (
    BaseEvaluator,
    BatchEvalRunner,
    CorrectnessEvaluator,
    EvaluationResult,
    FaithfulnessEvaluator,
)

from rag_eval_hooks import Cause, Context, NotScored, RagEval, Sample, Score
from rag_eval_hooks.errors import ConfigError
from rag_eval_hooks.judges.callable_judge import CallableJudge
from rag_eval_hooks.metrics import build
from rag_eval_hooks.metrics.options import MetricOptions
from rag_eval_hooks.score import UNIT, Scale
from rag_eval_hooks.testing import ScriptedJudge
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
    """Gives a fixed result, raises it, or never gives one."""

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


def outcome_of(evaluator: BaseEvaluator, sample: Sample = SAMPLE, **options: Any) -> Any:
    metric = llama_index_metric(evaluator, id="own.metric", **options)
    with RagEval(metrics=[metric], judge="heuristic") as evals:
        return evals.evaluate(sample)["own.metric"]


@pytest.mark.parametrize(
    ("evaluator", "scale", "score"),
    [
        (FaithfulnessEvaluator(llm=says("YES")), UNIT, (1.0, 1.0, "pass")),
        (CorrectnessEvaluator(llm=says("4.0\nAlmost.")), Scale(1, 5), (4.0, 0.75, "pass")),
        (Odd(EvaluationResult(passing=False)), UNIT, (0.0, 0.0, "fail")),
    ],
)
def test_metric_of_their_evaluator_keeps_its_scale(
    evaluator: BaseEvaluator, scale: Scale, score: tuple[float, float, str]
) -> None:
    asyncio.set_event_loop(None)
    outcome = outcome_of(evaluator, scale=scale)
    assert (outcome.value, outcome.normalized, outcome.label) == score
    assert outcome.annotator == type(evaluator).__name__


@pytest.mark.parametrize(
    ("result", "cause"),
    [
        (EvaluationResult(invalid_result=True), Cause.JUDGE_FAILED),
        (EvaluationResult(), Cause.UNDEFINED),
        (EvaluationResult(score=float("nan")), Cause.UNDEFINED),
        (EvaluationResult(score=7.0), Cause.METRIC_FAILED),
        (ValueError("x"), Cause.METRIC_FAILED),
        ("never", Cause.TIMEOUT),
        ("no result", Cause.METRIC_FAILED),
    ],
)
def test_no_score_has_a_cause(result: object, cause: Cause) -> None:
    outcome = outcome_of(Odd(result), timeout=0.05)
    assert isinstance(outcome, NotScored)
    assert outcome.cause is cause


async def test_ours_in_their_batch_runner() -> None:
    texts = {
        "The tower was built in 1921.": (1.0, True, False),
        "The tower was built in 1850.": (0.0, False, False),
        "The tower has 12 bells.": (None, None, True),
    }
    responses = list(texts) * 7
    with RagEval(metrics=["ragas.faithfulness"], judge="heuristic") as evals:
        evaluator = SuiteEvaluator(evals, "ragas.faithfulness")
        results = await BatchEvalRunner({"faithful": evaluator}, workers=8).aevaluate_response_strs(
            queries=["When was the tower built?"] * len(responses),
            response_strs=responses,
            contexts_list=[["The tower was built in 1921."]] * len(responses),
        )
        assert evals.stats().offered == 0
        faithful = (await evals.aevaluate(SAMPLE))["ragas.faithfulness"]
    assert isinstance(faithful, Score)
    assert faithful.value == 1.0
    found = [(r.response, (r.score, r.passing, r.invalid_result)) for r in results["faithful"]]
    assert found == [(text, texts[text]) for text in responses]


def down(messages: Any) -> str:
    raise ConnectionError("the judge is down")


async def test_a_judge_that_fails_gives_them_no_score() -> None:
    with RagEval(metrics=["ragas.faithfulness"], judge=CallableJudge(down)) as evals:
        runner = BatchEvalRunner({"faithful": SuiteEvaluator(evals, "ragas.faithfulness")})
        results = await runner.aevaluate_response_strs(
            queries=["When was the tower built?"] * 3,
            response_strs=["The tower was built in 1921."] * 3,
            contexts_list=[["The tower was built in 1921."]] * 3,
        )
    for result in results["faithful"]:
        assert (result.score, result.passing, result.invalid_result) == (None, None, True)
        assert str(result.invalid_reason).startswith("judge_failed: ")


def test_evaluator_of_a_suite_measures_its_metric_alone() -> None:
    metrics = [metric.id for metric in build(MetricOptions()) if metric.id.startswith("ragas.")]
    judges = {metric: ScriptedJudge() for metric in (*metrics, "all")}
    for metric in metrics:
        with RagEval(metrics=[metric], judge=judges[metric]) as evals:
            evals.evaluate(SAMPLE)
    texts = [context.text for context in SAMPLE.contexts or ()]
    with RagEval(metrics=["ragas"], judge=judges["all"]) as evals:
        for metric in metrics:
            before, evaluator = len(judges["all"].calls), SuiteEvaluator(evals, metric)
            evaluator.evaluate(
                query=SAMPLE.question,
                response=SAMPLE.answer,
                contexts=texts,
                reference=SAMPLE.reference,
            )
            assert len(judges["all"].calls) - before == len(judges[metric].calls)


@given(st.data())
def test_evaluator_of_a_misspelt_metric_is_refused_with_the_one_meant(data: st.DataObject) -> None:
    metrics = [metric.id for metric in build(MetricOptions()) if metric.id.startswith("ragas.")]
    meant = data.draw(st.sampled_from(metrics))
    left_out = data.draw(st.integers(len("ragas.") + 1, len(meant) - 1))
    with (
        RagEval(metrics=["ragas"], judge="heuristic") as evals,
        pytest.raises(ConfigError, match=re.escape(meant)),
    ):
        SuiteEvaluator(evals, meant[:left_out] + meant[left_out + 1 :])
