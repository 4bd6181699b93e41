"""Functions as metrics: of a sample, or of inputs and outputs as LangSmith has them."""

from __future__ import annotations

import asyncio
import inspect
import math
import re
from collections.abc import Callable, Iterable, Mapping
from typing import Any

from rag_eval_hooks.metrics import AskedMetric, Field
from rag_eval_hooks.sample import Sample
from rag_eval_hooks.score import UNIT, Cause, NotScored, Outcome, Scale, Score

__all__ = ["evaluator_metric", "metric_of"]

_NEEDS = frozenset({Field.QUESTION, Field.ANSWER})


def evaluator_metric(
    evaluator: Callable[..., Any],
    *,
    id: str | None = None,
    needs: Iterable[Field] = _NEEDS,
    scale: Scale = UNIT,
    timeout: float = 60.0,
) -> AskedMetric:
    """Return a metric from an evaluator `(inputs, outputs, reference_outputs)`, sync or async.

    Args:
        evaluator: Called by keyword with those of the three that it takes: `inputs` holds
            `question` and `contexts`, `outputs` holds `answer`, `reference_outputs` holds
            `answer`, the reference, or is None. It gives a boolean, a number, or a mapping with
            `score` (or `value`) and maybe `comment`. A sync one runs in a thread.
        id: `<suite>.<metric>`; by default `evaluator.` and the function's name.
        needs: Fields without which it is not asked.
        scale: Of its numbers.
        timeout: Seconds that it may take; a sync one then goes on unheeded.
    """
    name = getattr(evaluator, "__name__", type(evaluator).__name__)
    taken = _taken(evaluator)

    async def ask(sample: Sample) -> Outcome:
        given = {key: value for key, value in _given(sample).items() if key in taken}
        if inspect.iscoroutinefunction(evaluator):
            return _outcome_of(await evaluator(**given), scale)
        result = await asyncio.to_thread(evaluator, **given)
        return _outcome_of(await result if inspect.isawaitable(result) else result, scale)

    return AskedMetric(
        id=id or f"evaluator.{name}",
        ask=ask,
        needs=frozenset(needs),
        scale=scale,
        timeout=timeout,
        annotator=name,
    )


def _given(sample: Sample) -> Mapping[str, Any]:
    contexts = [context.text for context in sample.contexts or ()]
    reference = None if sample.reference is None else {"answer": sample.reference}
    return {
        "inputs": {"question": sample.question, "contexts": contexts},
        "outputs": {"answer": sample.answer},
        "reference_outputs": reference,
    }


def _taken(evaluator: Callable[..., Any]) -> frozenset[str]:
    every = frozenset({"inputs", "outputs", "reference_outputs"})
    parameters = inspect.signature(evaluator).parameters
    takes_all = any(p.kind is inspect.Parameter.VAR_KEYWORD for p in parameters.values())
    return every if takes_all else every & parameters.keys()


def metric_of(function: Callable[[Sample], Any]) -> AskedMetric:
    """Return a metric from a function of a sample, sync or async.

    Args:
        function: Returns a number from 0 to 1, a boolean, or an outcome; None for no score. A
            sync one runs in a thread.
    """
    written = getattr(function, "__name__", type(function).__name__)
    name = re.sub(r"\W+", "_", written).strip("_")

    async def ask(sample: Sample) -> Outcome:
        if inspect.iscoroutinefunction(function):
            return _outcome_of(await function(sample), UNIT)
        result = await asyncio.to_thread(function, sample)
        return _outcome_of(await result if inspect.isawaitable(result) else result, UNIT)

    return AskedMetric(id=f"own.{name}", ask=ask, needs=frozenset(), annotator=name)


def _outcome_of(result: Any, scale: Scale) -> Outcome:
    """Return the outcome that an evaluator's result stands for.

    Args:
        result: An outcome, a boolean, a number, None, or a mapping with `score` (or `value`) and
            maybe `comment`.
        scale: Scale of the numbers.

    Raises:
        ValueError: The number is outside the scale.
        TypeError: It is none of these.
    """
    if isinstance(result, Score | NotScored):
        return result
    fields = result if isinstance(result, Mapping) else {"score": result}
    value = fields.get("score", fields.get("value"))
    if value is None or not math.isfinite(value):
        return NotScored(Cause.UNDEFINED, "the evaluator gave no score")
    number = (scale.high if value else scale.low) if isinstance(value, bool) else float(value)
    comment = fields.get("comment")
    return scale.score(number, explanation={"comment": str(comment)} if comment else {})
