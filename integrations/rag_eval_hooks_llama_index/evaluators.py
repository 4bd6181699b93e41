"""Evaluators of LlamaIndex as metrics of ours, and metrics of ours as its evaluators."""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence
from typing import Any

from llama_index.core.evaluation import BaseEvaluator, EvaluationResult
from llama_index.core.prompts.mixin import PromptDictType

from rag_eval_hooks import RagEval
from rag_eval_hooks.evals import checked
from rag_eval_hooks.metrics import AskedMetric, Field
from rag_eval_hooks.sample import Sample
from rag_eval_hooks.score import UNIT, AnnotatorKind, Cause, NotScored, Outcome, Scale

__all__ = ["SuiteEvaluator", "llama_index_metric"]

_ALWAYS = frozenset({Field.QUESTION, Field.CONTEXTS, Field.ANSWER})


def llama_index_metric(
    evaluator: BaseEvaluator,
    *,
    id: str | None = None,
    needs: Iterable[Field] = _ALWAYS,
    scale: Scale = UNIT,
    timeout: float = 60.0,
) -> AskedMetric:
    """Return a metric that asks an evaluator of LlamaIndex.

    Args:
        evaluator: Its `aevaluate` is called with query, response, contexts and, where the sample
            has one, `reference`.
        id: `<suite>.<metric>`; by default `llama_index.` and the class's name.
        needs: Fields without which it is not asked.
        scale: Of its scores, such as `Scale(1, 5)` for `CorrectnessEvaluator`. A result with
            `passing` and without a score is 1 or 0.
        timeout: Seconds that it may take.
    """
    name = type(evaluator).__name__

    async def ask(sample: Sample) -> Outcome:
        more = {} if sample.reference is None else {"reference": sample.reference}
        contexts = [context.text for context in sample.contexts or ()]
        result = await evaluator.aevaluate(
            query=sample.question, response=sample.answer, contexts=contexts, **more
        )
        return _outcome(result, scale)

    return AskedMetric(
        id=id or f"llama_index.{name}",
        ask=ask,
        needs=frozenset(needs),
        scale=scale,
        timeout=timeout,
        annotator=name,
        summary=f"LlamaIndex's {name}.",
    )


def _outcome(result: EvaluationResult, scale: Scale) -> Outcome:
    if result.invalid_result:
        return NotScored(Cause.JUDGE_FAILED, "the evaluator calls its result invalid")
    value = result.score
    if value is None and result.passing is not None:
        value = scale.high if result.passing else scale.low
    if value is None or not math.isfinite(value):
        return NotScored(Cause.UNDEFINED, "the evaluator gave no score")
    return scale.score(
        value,
        label=None if result.passing is None else ("pass" if result.passing else "fail"),
        explanation={"feedback": result.feedback} if result.feedback else {},
        annotator_kind=AnnotatorKind.LLM,
    )


class SuiteEvaluator(BaseEvaluator):
    """One of our metrics as an evaluator of LlamaIndex, as in `BatchEvalRunner`.

    Args:
        evals: Made with that metric; what it evaluates here is not counted in its `stats`.
        metric: The id, such as `ragas.faithfulness`.
        threshold: Normalised score, 0 to 1, from which on a result passes.

    Raises:
        ConfigError: The metric is none of `evals`.
    """

    def __init__(self, evals: RagEval, metric: str, *, threshold: float = 0.5) -> None:
        checked(evals).known_metrics([metric])
        self._evals = evals
        self._metric = metric
        self._threshold = threshold

    def _get_prompts(self) -> PromptDictType:
        return {}

    def _update_prompts(self, prompts: PromptDictType) -> None:
        """Do nothing: there are no prompts to change."""

    async def aevaluate(
        self,
        query: str | None = None,
        response: str | None = None,
        contexts: Sequence[str] | None = None,
        **kwargs: Any,
    ) -> EvaluationResult:
        """Return the result; without a score it is invalid, with the reason.

        Args:
            query: The question.
            response: The answer.
            contexts: Texts of the contexts.
            **kwargs: `reference`, where there is one; others are ignored.
        """
        texts = None if contexts is None else tuple(contexts)
        sample = Sample(
            question=query or "",
            answer=response,
            contexts=texts,  # type: ignore[arg-type]
            reference=kwargs.get("reference"),
        )
        outcomes = await self._evals.aevaluate(sample, metrics=[self._metric])
        missing = NotScored(Cause.MISSING_INPUT, f"{self._metric} was not measured")
        outcome = outcomes.get(self._metric, missing)
        shared: dict[str, Any] = {
            "query": sample.question,
            "response": sample.answer,
            "contexts": list(texts or ()),
        }
        if isinstance(outcome, NotScored):
            reason = f"{outcome.cause.value}: {outcome.detail}"
            return EvaluationResult(invalid_result=True, invalid_reason=reason, **shared)
        return EvaluationResult(
            score=outcome.value,
            passing=outcome.normalised >= self._threshold,
            feedback=str(dict(outcome.explanation)) if outcome.explanation else None,
            **shared,
        )
