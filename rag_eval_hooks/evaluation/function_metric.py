"""Turns functions into metrics: functions of a sample, or evaluators as in LangSmith."""

from __future__ import annotations

import asyncio
import inspect
import re
from collections.abc import Callable, Iterable, Mapping
from dataclasses import replace
from typing import Any

from rag_eval_hooks.errors import ConfigError, InputError, check_number, kind_of
from rag_eval_hooks.incidents import place_of
from rag_eval_hooks.metrics import AskedMetric, Field
from rag_eval_hooks.sample import Sample
from rag_eval_hooks.score import UNIT, Cause, NotScored, Outcome, Scale, Score

_TEXTS = ("inputs", "outputs", "reference_outputs")
RETURNED_NOTHING = "The function returned no score"
_VARIABLE = (inspect.Parameter.VAR_KEYWORD, inspect.Parameter.VAR_POSITIONAL)
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
        evaluator: Receives the keywords that it accepts. `inputs` has `question` and `contexts`.
            `outputs` has `answer`. `reference_outputs` has the reference as `answer`, or is None.
            The evaluator returns a boolean, a number, or a mapping with `score` (or `value`) and
            optionally `comment`. A synchronous evaluator runs on a thread.
        id: `<suite>.<metric>`. The default is `evaluator.` and the function's name.
        needs: Fields that the sample must have. Otherwise the evaluator is not called.
        scale: Scale of the evaluator's numbers.
        timeout: Timeout in seconds. After it, a synchronous evaluator keeps running, and its result
            is ignored.
    """
    name = getattr(evaluator, "__name__", type(evaluator).__name__)
    if not callable(evaluator):
        raise ConfigError("evaluator", kind_of(evaluator), "a function of inputs and outputs")
    parameters = inspect.signature(evaluator).parameters.values()
    takes_all = any(one.kind is inspect.Parameter.VAR_KEYWORD for one in parameters)
    taken = {one.name for one in parameters}
    for one in parameters:
        is_filled = one.kind in _VARIABLE or one.default is not inspect.Parameter.empty
        if one.name not in _TEXTS and not is_filled:
            raise ConfigError.unknown(f"parameter of {name}", one.name, _TEXTS)
    check_number("timeout", timeout, "a number of seconds")

    async def ask(sample: Sample) -> Outcome:
        contexts = [context.text for context in sample.contexts or ()]
        reference = None if sample.reference is None else {"answer": sample.reference}
        texts: dict[str, Any] = {
            "inputs": {"question": sample.question, "contexts": contexts},
            "outputs": {"answer": sample.answer},
            "reference_outputs": reference,
        }
        given = {name: one for name, one in texts.items() if takes_all or name in taken}
        return outcome_of(await _called(evaluator, **given), scale, evaluator)

    return AskedMetric(
        id=id or f"evaluator.{name}",
        ask=ask,
        needs=needs,  # type: ignore[arg-type]
        scale=scale,
        timeout=timeout,
        annotator=name,
    )


def metric_of(function: Callable[[Sample], Any]) -> AskedMetric:
    """Return a metric from a function of a sample. A synchronous function runs on a thread.

    The function returns a number from 0 to 1, a boolean, an outcome, or None for no score.
    """
    written = getattr(function, "__name__", type(function).__name__)
    _check_arguments(function, written)
    name = re.sub(r"\W+", "_", written).strip("_")

    async def ask(sample: Sample) -> Outcome:
        return outcome_of(await _called(function, sample), UNIT, function)

    return AskedMetric(id=f"own.{name}", ask=ask, needs=frozenset(), annotator=name)


def _check_arguments(function: Callable[..., Any], name: str) -> None:
    try:
        signature = inspect.signature(function)
    except ValueError:  # Some functions that are not written in Python have none.
        return
    try:
        signature.bind(None)
    except TypeError:
        wants = "a function of one argument, the sample; evaluator_metric() takes others"
        raise ConfigError("metrics", f"{name}{signature}", wants) from None


async def _called(function: Callable[..., Any], *args: Any, **given: Any) -> Any:
    if inspect.iscoroutinefunction(function):
        return await function(*args, **given)
    result = await asyncio.to_thread(function, *args, **given)
    return await result if inspect.isawaitable(result) else result


class ResultError(InputError):
    pass


def outcome_of(result: Any, scale: Scale, function: Callable[..., Any]) -> Outcome:
    """Return the outcome that a metric function's result means, with its normalized value.

    Raises:
        ResultError: The result has another type, or a number outside the scale.
    """
    if isinstance(result, NotScored) or getattr(result, "normalized", None) is not None:
        return result  # type: ignore[no-any-return]
    expected = (
        f"Return a number from {scale.low:g} to {scale.high:g}, True or False, "
        f"or a mapping with `score` and perhaps `comment`.{place_of(function)}"
    )
    fields = result if isinstance(result, Mapping) else {"score": result}
    value = fields.get("score", fields.get("value"))
    if value is None:
        kind = "a mapping without `score`" if isinstance(result, Mapping) else "None"
        return NotScored(Cause.UNDEFINED, f"{RETURNED_NOTHING} ({kind}). {expected}")
    number = _number(value, scale, expected)
    if isinstance(value, Score):
        return replace(value, normalized=scale.normalize(number))
    comment = fields.get("comment")
    return scale.score(number, explanation={"comment": str(comment)} if comment else {})


def _number(value: object, scale: Scale, expected: str) -> float:
    if isinstance(value, Score):
        value = value.value
    if not isinstance(value, int | float):
        raise ResultError(f"The function returned {type(value).__name__}. {expected}")
    number = (scale.high if value else scale.low) if isinstance(value, bool) else float(value)
    if not scale.low <= number <= scale.high:
        stated = f"The function returned a number outside its scale. {expected}"
        raise ResultError(stated, f"It returned {number:g}.")
    return number
