"""Question checks: what the answer to one question must hold, by `question_id`.

Three kinds: the items of a list, facts, a calculation. Source: Evaluation Metrics Documentation,
question-specific metrics.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any, Final

from rag_eval_hooks.findings import Findings
from rag_eval_hooks.metrics.check_file import (
    CalculationCheck,
    Check,
    Evidence,
    FactsCheck,
    ListCheck,
)
from rag_eval_hooks.metrics.formulas import share
from rag_eval_hooks.metrics.metric import Field, Metric
from rag_eval_hooks.sample import Sample
from rag_eval_hooks.score import UNIT, Cause, NotScored, Outcome, Score
from rag_eval_hooks.text.folding import fold
from rag_eval_hooks.text.sentences import strip_marker

__all__ = ["metrics"]

_SOURCE: Final = "Evaluation Metrics Documentation, question-specific metrics"
_HYPHENS = str.maketrans(dict.fromkeys("\u2010\u2011\u2012\u2013\u2212", "-"))
_EMPHASIS = re.compile(r"[*_`]{1,3}")
_ITEM_NAME = re.compile(r"(?:\s[-\u2013\u2014]\s|:\s|:$)")


def metrics(checks: Iterable[Check]) -> tuple[Metric, ...]:
    """Return one metric per check; on samples of any other question it is `missing_input`."""
    return tuple(map(_metric, checks))


def _metric(check: Check) -> Metric:
    name = check.question_id
    if isinstance(check, ListCheck):
        return _for_question(
            name,
            "rules_coverage",
            lambda sample: _rules_coverage(check, sample.answer or "", sample.reference or ""),
            frozenset({Field.ANSWER, Field.REFERENCE}),
            f"Share of the reference's list items that the answer to {name} lists.",
        )
    if isinstance(check, FactsCheck):
        return _for_question(
            name,
            "fact_score",
            lambda sample: _fact_score(check, sample.answer or ""),
            frozenset({Field.ANSWER}),
            f"Share of the expected facts in the answer to {name}.",
        )
    return _for_question(
        name,
        "is_correct",
        lambda sample: _is_correct(check, sample.answer or ""),
        frozenset({Field.ANSWER}),
        f"Whether the answer to {name} holds the right result.",
    )


def _for_question(
    question_id: str,
    value: str,
    check: Callable[[Sample], Outcome],
    needs: frozenset[Field],
    summary: str,
) -> Metric:
    def score(sample: Sample, _findings: Findings) -> Outcome:
        if sample.question_id != question_id:
            return NotScored(Cause.MISSING_INPUT, "the check is for another question")
        return check(sample)

    metric_id = f"lexical.{question_id}.{value}"
    return Metric(id=metric_id, score=score, needs=needs, summary=summary, source=_SOURCE)


def _rules_coverage(check: ListCheck, answer: str, reference: str) -> Outcome:
    expected = _items(reference, check.patterns)
    if not expected:
        return NotScored(Cause.UNDEFINED, "the reference lists nothing")
    listed = _items(answer, check.patterns)
    found = [item for item in expected if item in listed]
    value = len(found) / len(expected)
    return UNIT.score(
        value,
        parts={
            "rules_found": float(len(found)),
            "total_rules": float(len(expected)),
            "rules_coverage": value,
        },
        explanation={
            "found": found,
            "missing": [item for item in expected if item not in listed],
            "unexpected": [item for item in listed if item not in expected],
        },
    )


def _items(text: str, patterns: Sequence[re.Pattern[str]]) -> list[str]:
    """Return distinct list items and pattern matches of a text, folded, in order."""
    found: list[str] = []
    for line in _EMPHASIS.sub("", _bullets_kept(text)).translate(_HYPHENS).splitlines():
        matches = [fold(match[0]) for pattern in patterns for match in pattern.finditer(line)]
        found += matches or _listed(line)
    return list(dict.fromkeys(found))


def _bullets_kept(text: str) -> str:
    """Return the text with hyphens for bullets that look like emphasis."""
    return re.sub(r"^(\s*)\*(?=\s)", r"\1-", text, flags=re.MULTILINE)


def _listed(line: str) -> list[str]:
    line = line.strip()
    item = strip_marker(line)
    if item == line or line.startswith("#"):
        return []
    name = fold(_ITEM_NAME.split(item)[0]).strip(" .,;:")
    return [name] if name else []


def _fact_score(check: FactsCheck, answer: str) -> Outcome:
    facts = _facts(check.facts, answer)
    value = share(list(facts.values()))
    if value is None:
        return NotScored(Cause.UNDEFINED, "the check names no fact")
    return UNIT.score(value, **_shown({**facts, "fact_score": value}))


def _is_correct(check: CalculationCheck, answer: str) -> Score:
    facts = _facts(check.facts, answer)
    correct = all(facts[name] for name in check.holds)
    correct = correct and not any(facts[name] for name in check.lacks)
    shown = _shown({**facts, "is_correct": correct})
    return UNIT.score(float(correct), label=str(correct), **shown)


def _facts(facts: Mapping[str, Evidence], answer: str) -> dict[str, bool]:
    return {name: evidence.stands_in(answer) for name, evidence in facts.items()}


def _shown(fields: Mapping[str, float | bool]) -> dict[str, Any]:
    parts = {name: float(value) for name, value in fields.items()}
    return {"parts": parts, "explanation": dict(fields)}
