"""Assertions on scores, for an application's tests."""

from __future__ import annotations

import time
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from rag_eval_hooks.delivery.jsonl import JsonlSink
from rag_eval_hooks.errors import ConfigError, InputError, check_number
from rag_eval_hooks.evals import RagEval
from rag_eval_hooks.explanation import prose
from rag_eval_hooks.result import Evaluation
from rag_eval_hooks.results.summary import scale_of_metric, slope_of
from rag_eval_hooks.sample import Sample
from rag_eval_hooks.score import NotScored, Outcome, Outcomes

_MOST_TEXT = 4000


class ScoresInTests:
    """Evaluates samples and asserts their scores. `results` is a file for the evaluations."""

    def __init__(self, results: Path | None = None) -> None:
        self._evals = RagEval()
        self._sink = None if results is None else JsonlSink(results)

    def evaluate(self, sample: Sample | Mapping[str, Any]) -> Outcomes:
        """Evaluate a sample and return the outcomes by metric id."""
        start, known = time.time_ns(), Sample.of(sample)
        outcomes = self._evals.evaluate(known)
        if self._sink is not None:
            times: dict[str, Any] = {"start": start, "end": time.time_ns()}
            self._sink.deliver(Evaluation(sample=known, outcomes=outcomes, reason="test", **times))
        return outcomes

    def assert_scores(self, sample: Sample | Mapping[str, Any], **limits: float) -> Outcomes:
        """Assert that scores reach their limits, and return the outcomes by metric id.

        Args:
            sample: The sample, or a mapping that `RagEval.evaluate` accepts.
            **limits: Minimum score of each metric, on the metric's own scale. If lower scores are
                better, the limit is a maximum. The keyword is the part of the metric's id after the
                dot: `faithfulness=0.8`. The entire id also works:
                `**{"graphrag.answer_class": 100}`.

        Raises:
            AssertionError: A score is missing or does not reach its limit. The message lists each
                claim with its verdict and quote.
        """
        # Hide this function from pytest's traceback.
        __tracebackhide__ = True
        if not limits:
            raise InputError("assert_scores() needs a limit, such as faithfulness=0.8.")
        for name, limit in limits.items():
            check_number(name, limit, "a number")
        known = Sample.of(sample)
        outcomes = self.evaluate(known)
        named = {_metric(name, outcomes): limit for name, limit in limits.items()}
        failures = [_failure(name, outcomes[name], limit) for name, limit in named.items()]
        if told := list(filter(None, failures)):
            head = (f"question: {known.question}", f"answer: {known.answer}")
            raise AssertionError("\n".join([*told, *head]))
        return outcomes

    def close(self) -> None:
        self._evals.shutdown()


def _metric(name: str, outcomes: Outcomes) -> str:
    found = [one for one in outcomes if name in (one, one.partition(".")[2])]
    # Several suites may have a metric of this name. The name alone means the RAGAS metric.
    found = [one for one in found if one in (name, f"ragas.{name}")] or found
    if len(found) == 1:
        return found[0]
    raise ConfigError.unknown("assert_scores", name, found or outcomes)


def _failure(metric: str, outcome: Outcome, limit: float) -> str:
    if (scale := scale_of_metric(metric)) is not None and not scale.low <= limit <= scale.high:
        wants = f"a number from {scale.low:g} to {scale.high:g}"
        raise ConfigError(f"assert_scores: {metric}", limit, wants)
    if isinstance(outcome, NotScored):
        return f"{metric} has no score: {outcome.line}"
    is_less_better = slope_of(metric, [outcome])[0] < 0
    if outcome.value <= limit if is_less_better else outcome.value >= limit:
        return ""
    least = "at most" if is_less_better else "at least"
    lines = (prose(outcome.explanation, _MOST_TEXT, content=True) or "").splitlines()
    told = f"{metric} is {outcome.value:.3g}, but must be {least} {limit:g}"
    rows = [row for rows in outcome.explanation.values() if isinstance(rows, list) for row in rows]
    quotes = [row.get("quote") for row in rows if isinstance(row, Mapping)]
    return "\n  ".join([told, *lines, *(f"  quote: {quote}" for quote in quotes if quote)])
