"""Converts LlamaIndex evaluators to our metrics, and our metrics to evaluators."""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence
from dataclasses import replace
from typing import Any

from llama_index.core.evaluation import BaseEvaluator, CorrectnessEvaluator, EvaluationResult
from llama_index.core.prompts.mixin import PromptDictType

from rag_eval_hooks import RagEval, evaluator_metric
from rag_eval_hooks.errors import ConfigError, kind_of
from rag_eval_hooks.evals import checked
from rag_eval_hooks.metrics import AskedMetric
from rag_eval_hooks.sample import Field, Sample
from rag_eval_hooks.score import UNIT, AnnotatorKind, Cause, NotScored, Outcome, Scale

_ALWAYS = frozenset({Field.QUESTION, Field.CONTEXTS, Field.ANSWER})


def llama_index_metric(
    evaluator: BaseEvaluator,
    *,
    id: str | None = None,
    needs: Iterable[Field] = _ALWAYS,
    scale: Scale | None = None,
    timeout: float = 60.0,
) -> AskedMetric:
    """Return a metric that calls a LlamaIndex evaluator.

    Args:
        evaluator: A LlamaIndex evaluator.
        id: The metric's id. The default is `llama_index.` plus the name of the evaluator's class.
        needs: Fields that the sample must have. Other samples get no score.
        scale: Scale of the scores. The default is 1 to 5 for `CorrectnessEvaluator`, else 0 to 1.
            Some evaluators report only whether the answer passes. The metric then gives the highest
            or the lowest number of the scale.
        timeout: Maximum number of seconds per evaluation.

    Raises:
        ConfigError: The object is not an evaluator.
    """
    if not isinstance(evaluator, BaseEvaluator):
        expected = "a LlamaIndex evaluator, such as FaithfulnessEvaluator(llm=...)"
        raise ConfigError("evaluator", kind_of(evaluator), expected)
    if scale is None:
        scale = Scale(1, 5) if isinstance(evaluator, CorrectnessEvaluator) else UNIT
    range_, name = scale, type(evaluator).__name__

    async def ask(
        inputs: dict[str, Any], outputs: dict[str, Any], reference_outputs: dict[str, Any] | None
    ) -> Outcome:
        texts = {"query": inputs["question"], "contexts": inputs["contexts"]}
        if reference_outputs is not None:
            texts["reference"] = reference_outputs["answer"]
        return _outcome(await evaluator.aevaluate(response=outputs["answer"], **texts), range_)

    ask.__name__ = name
    metric_id = id or f"llama_index.{name}"
    metric = evaluator_metric(ask, id=metric_id, needs=needs, scale=range_, timeout=timeout)
    return replace(metric, summary=f"LlamaIndex's {name}.")


def _outcome(result: EvaluationResult, scale: Scale) -> Outcome:
    if result.invalid_result:
        return NotScored(Cause.JUDGE_FAILED, "the evaluator marked its result as invalid")
    value, label = result.score, None
    if result.passing is not None:
        label = "pass" if result.passing else "fail"
        end = scale.high if result.passing else scale.low
        value = end if value is None else value
    if value is None or not math.isfinite(value):
        return NotScored(Cause.UNDEFINED, "the evaluator gave no score")
    explanation = {"feedback": result.feedback} if result.feedback else {}
    return scale.score(
        value, label=label, explanation=explanation, annotator_kind=AnnotatorKind.LLM
    )


class SuiteEvaluator(BaseEvaluator):
    """A LlamaIndex evaluator that computes one of our metrics, for example in `BatchEvalRunner`.

    Args:
        evals: A `RagEval` that computes this metric. `evals.stats()` does not count these
            evaluations.
        metric: The metric's id, such as `ragas.faithfulness`.
        threshold: Minimum normalized score (0 to 1) with which a result passes.

    Raises:
        ConfigError: `evals` does not compute this metric.
    """

    def __init__(self, evals: RagEval, metric: str, *, threshold: float = 0.5) -> None:
        known = checked(evals)._parts.scorer.metric_ids
        if metric not in known:
            raise ConfigError.unknown("metric", metric, known)
        self._evals = evals
        self._metric = metric
        self._threshold = threshold

    def _get_prompts(self) -> PromptDictType:
        return {}

    def _update_prompts(self, prompts: PromptDictType) -> None:
        pass

    async def aevaluate(
        self,
        query: str | None = None,
        response: str | None = None,
        contexts: Sequence[str] | None = None,
        **kwargs: Any,
    ) -> EvaluationResult:
        """Evaluate an answer. If the score is missing, `invalid_reason` gives the cause.

        The keyword `reference` is the expected answer. The method ignores all other keywords.
        """
        texts = list(contexts or ())
        result = EvaluationResult(query=query or "", response=response, contexts=texts)
        sample = Sample(
            question=query or "",
            answer=response,
            contexts=None if contexts is None else tuple(contexts),  # type: ignore[arg-type]
            reference=kwargs.get("reference"),
        )
        outcome = (await self._evals.aevaluate(sample, metrics=[self._metric]))[self._metric]
        if isinstance(outcome, NotScored):
            result.invalid_result = True
            result.invalid_reason = f"{outcome.cause.value}: {outcome.detail}"
            return result
        result.score = outcome.value
        result.passing = outcome.normalized >= self._threshold
        result.feedback = str(dict(outcome.explanation)) if outcome.explanation else None
        return result
