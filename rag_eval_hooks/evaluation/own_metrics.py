"""Metrics that users define: evaluators, criteria, and functions that take a sample."""

from __future__ import annotations

import inspect
import re
import weakref
from collections.abc import Awaitable, Callable, Iterable, Mapping
from dataclasses import replace
from functools import partial, wraps
from numbers import Real
from typing import Any

from rag_eval_hooks.errors import ConfigError, InputError, check_number, check_type, kind_of
from rag_eval_hooks.findings import Finding, Findings, made
from rag_eval_hooks.incidents import place_of
from rag_eval_hooks.judges import Judge
from rag_eval_hooks.metrics import AskedMetric, Metric
from rag_eval_hooks.metrics.formulas import claim_rows, sure_ones
from rag_eval_hooks.sample import Context, Field, Sample
from rag_eval_hooks.score import UNIT, Cause, NotScored, Outcome, Scale, Score
from rag_eval_hooks.threads import DaemonExecutor

_TEXTS = ("inputs", "outputs", "reference_outputs")
RETURNED_NOTHING = "The function returned no score"
_PREDICATE = "a predicate, such as 'mentions the price'"
_LONGEST_NAME = 40
_MOST_THREADS = 32
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
    """Return a metric that calls a synchronous or asynchronous evaluator.

    Args:
        evaluator: Function with any of the parameters `inputs`, `outputs` and `reference_outputs`.
            `inputs` is a mapping with `question` and `contexts`. `outputs` is a mapping with
            `answer`. `reference_outputs` is None or a mapping with the reference as `answer`.
            The evaluator returns a boolean, a number, or a mapping. The mapping has `score` or
            `value`, and optionally `comment`. A synchronous evaluator runs in a thread.
        id: `<suite>.<metric>`. The default is `evaluator.` and the function's name.
        needs: Fields that the sample must have. If a field is missing, the evaluator is not called.
        scale: Range of the evaluator's numbers. The default is 0 to 1.
        timeout: Seconds until the metric fails with the cause `timeout`. A synchronous evaluator
            then keeps running in its thread.
    """
    name = getattr(evaluator, "__name__", type(evaluator).__name__)
    if not callable(evaluator):
        raise ConfigError("evaluator", kind_of(evaluator), "a function of inputs and outputs")
    parameters = inspect.signature(evaluator).parameters
    takes_all = any(one.kind is inspect.Parameter.VAR_KEYWORD for one in parameters.values())
    for one in parameters.values():
        is_filled = one.kind in _VARIABLE or one.default is not inspect.Parameter.empty
        if one.name not in _TEXTS and not is_filled:
            raise ConfigError.unknown(f"parameter of {name}", one.name, _TEXTS)
    check_number("timeout", timeout, "a number of seconds")
    call = _called(evaluator)

    @wraps(evaluator, updated=())
    async def ask(sample: Sample) -> Any:
        contexts = [context.text for context in sample.contexts or ()]
        inputs = {"question": sample.question, "contexts": contexts}
        reference = None if sample.reference is None else {"answer": sample.reference}
        values = (inputs, {"answer": sample.answer}, reference)
        texts: dict[str, Any] = dict(zip(_TEXTS, values, strict=True))
        return await call(**{k: v for k, v in texts.items() if takes_all or k in parameters})

    return AskedMetric(
        id=id or f"evaluator.{name}",
        ask=ask,
        needs=needs,  # type: ignore[arg-type]
        scale=scale,
        timeout=timeout,
        annotator=name,
    )


def metric_of(function: Callable[[Sample], Any]) -> AskedMetric:
    written = getattr(function, "__name__", type(function).__name__)
    signature, name = inspect.signature(function), _id_of(written)
    try:
        signature.bind(None)
    except TypeError:
        wants = "a function that takes only a sample; wrap other functions in evaluator_metric()"
        raise ConfigError("metrics", f"{written}{signature}", wants) from None
    return AskedMetric(id=f"own.{name}", ask=_called(function), needs=frozenset(), annotator=name)


def _id_of(text: str) -> str:
    return re.sub(r"\W+", "_", text).strip("_")


def _called(function: Callable[..., Any]) -> Callable[..., Awaitable[Any]]:
    if inspect.iscoroutinefunction(function):
        return function
    # Threads of asyncio.to_thread cannot start at exit, and a hanging metric would delay the exit.
    threads = DaemonExecutor("rag-eval-hooks-metric", _MOST_THREADS)

    @wraps(function, updated=())
    async def call(*args: Any, **given: Any) -> Any:
        result = await threads.run(partial(function, *args, **given))
        return await result if inspect.isawaitable(result) else result

    weakref.finalize(call, threads.release).atexit = False
    return call


class ResultError(InputError):
    pass


def outcome_of(
    result: Any, scale: Scale, function: Callable[..., Any], annotator: str | None = None
) -> Outcome:
    if isinstance(result, NotScored):
        return result
    if isinstance(result, Score) and result.normalized is not None:
        is_named = result.annotator or annotator is None
        return result if is_named else replace(result, annotator=annotator)
    fields = result if isinstance(result, Mapping) else {"score": result}
    value = fields.get("score", fields.get("value"))
    if value is None:
        kind = "a mapping without `score`" if isinstance(result, Mapping) else "None"
        return NotScored(
            Cause.UNDEFINED, f"{RETURNED_NOTHING} ({kind}). {_advice(scale, function)}"
        )
    plain = value.value if isinstance(value, Score) else value
    if not isinstance(plain, Real):  # NumPy's numbers are `Real`.
        raise ResultError(
            f"The function returned {type(plain).__name__}. {_advice(scale, function)}"
        )
    number = (scale.high if plain else scale.low) if isinstance(plain, bool) else float(plain)
    if not scale.low <= number <= scale.high:
        told = f"The function returned {number:g}, which is outside the scale."
        raise ResultError(f"{told} {_advice(scale, function)}")
    if isinstance(value, Score):
        own = value.annotator or annotator
        return replace(value, normalized=scale.normalize(number), annotator=own)
    comment = fields.get("comment")
    explanation = {"comment": str(comment)} if comment else {}
    return scale.score(number, explanation=explanation, annotator=annotator)


def _advice(scale: Scale, function: Callable[..., Any]) -> str:
    return (
        f"Return a number from {scale.low:g} to {scale.high:g}, True or False, "
        f"or a mapping with `score` and optionally `comment`.{place_of(function)}"
    )


class Criterion(Metric):
    """A metric for one property of the answer. The score is 1 if the property holds, else 0.

    ```python
    notice = Criterion("mentions the notice period", name="notice_period")
    RagEval(metrics=["ragas", notice])
    ```

    The judge checks each criterion in a separate call. The heuristic judge cannot check criteria
    without a calibration.

    Args:
        text: The property, written as a predicate such as `mentions the notice period`. A full
            sentence also works, if it starts with a capital letter.
        name: Second part of the metric's id, `criterion.<name>`. The default derives from `text`.

    Raises:
        ConfigError: The text is blank.
    """

    def __init__(self, text: str, *, name: str | None = None) -> None:
        check_type("criterion", text, str, _PREDICATE)
        stated = " ".join(text.split()).rstrip(".")
        if not stated:
            raise ConfigError("criterion", text, _PREDICATE)
        super().__init__(
            id=f"criterion.{name or _id_of(stated.casefold())[:_LONGEST_NAME]}",
            score=_met,
            needs=_NEEDS,
            findings=frozenset({Finding.ANSWER_SUPPORT}),
            summary=f"Whether the answer meets: {stated}.",
            source="rag-eval-hooks",
        )
        claim = f"The answer {stated}." if stated[0].islower() else f"{stated}."
        object.__setattr__(self, "claim", claim)

    claim: str

    def absent(self, sample: Sample, judge: Judge) -> NotScored | None:
        if not (sample.answer or "").strip():
            return NotScored(Cause.UNDEFINED, "the answer is blank")
        if getattr(judge, "screening", False):
            told = "the judge is unsure about the criterion"
            return NotScored(Cause.UNDEFINED, told, undecided=True)
        return None

    def judged(self, sample: Sample) -> tuple[Sample, Findings]:
        # The judge verifies the criterion as a claim. The answer is the claim's only context.
        about = Sample(
            question=sample.question,
            contexts=(Context(text=f"The answer to the question is:\n{sample.answer}"),),
            answer=self.claim,
            truncated=("contexts",) if Field.ANSWER in sample.cut_parts else (),
        )
        return about, Findings(answer_claims=(self.claim,))


def _met(_sample: Sample, findings: Findings) -> Outcome:
    support = made(findings.answer_support)
    explanation = {"claims": claim_rows(made(findings.answer_claims), support)}
    (found,), warnings = sure_ones(support, explanation)
    label = "met" if found.supported else "not met"
    return UNIT.score(
        float(found.supported), label=label, explanation=explanation, warnings=warnings
    )
