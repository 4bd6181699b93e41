"""The `lexical` suite: answer against reference by words and numbers, without judge or model.

Scores are in [0, 1]. A blank reference states nothing to compare with: every metric that needs
it is then undefined. A blank answer is an answer, and scores 0.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence
from typing import Any

from rag_eval_hooks.findings import Findings
from rag_eval_hooks.metrics.metric import Field, Metric
from rag_eval_hooks.sample import Sample
from rag_eval_hooks.score import UNIT, Cause, NotScored, Outcome, Score
from rag_eval_hooks.text.folding import fold, squash, word_count
from rag_eval_hooks.text.key_terms import Keyword, Searched, keywords
from rag_eval_hooks.text.numbers import numbers

__all__ = ["METRICS"]

_FULL_MARKS = 3  # distinct indicators for a full citation score

_INDICATORS: dict[str, re.Pattern[str]] = {
    name: re.compile(rf"\b{pattern}")
    for name, pattern in {
        "source:": r"source[*_]*\s?:",
        "table:": r"table[*_]*\s?:",
        "page": r"page\b",
        "document": r"document\b",
        "pdf": r"pdf\b",
        "according to": r"according to\b",
        "based on": r"based on\b",
        "from": r"from\b",
    }.items()
}

_Compare = Callable[[str, str], Outcome]


def _compared(compare: _Compare) -> Callable[[Sample, Findings], Outcome]:
    """Return a metric's function from one that takes the answer and a non-blank reference."""

    def score(sample: Sample, findings: Findings) -> Outcome:
        if not (sample.reference or "").strip():
            return NotScored(Cause.UNDEFINED, "the reference is blank")
        return compare(sample.answer or "", sample.reference or "")

    return score


def _exact_match(answer: str, reference: str) -> Score:
    got, wanted = squash(answer), squash(reference)
    equal = got == wanted
    details: dict[str, Any] = {"equal": equal}
    if not equal:
        pairs = enumerate(zip(got, wanted, strict=False))
        first = next((i for i, (a, b) in pairs if a != b), min(len(got), len(wanted)))
        details["first_difference_at"] = first
    return UNIT.score(float(equal), label=str(equal), explanation=details)


def _found(answer: str, expected: Sequence[Keyword]) -> Score:
    """Return the share of expected items, at least one, that the answer holds."""
    searched = Searched.of(answer)
    held = [searched.holds(item) for item in expected]
    explanation = {
        "expected": [str(item) for item in expected],
        "found": [str(item) for item, there in zip(expected, held, strict=True) if there],
        "missing": [str(item) for item, there in zip(expected, held, strict=True) if not there],
    }
    return UNIT.score(sum(held) / len(held), explanation=explanation)


def _keyword_coverage(answer: str, reference: str) -> Outcome:
    expected = keywords(reference)
    if not expected:
        return NotScored(Cause.UNDEFINED, "the reference holds no keyword")
    return _found(answer, expected)


def _number_match(answer: str, reference: str) -> Outcome:
    expected = list(dict.fromkeys(numbers(reference)))
    if not expected:
        return NotScored(Cause.UNDEFINED, "the reference holds no number")
    return _found(answer, expected)


def _answer_completeness(answer: str, reference: str) -> Outcome:
    coverage = _keyword_coverage(answer, reference)
    if isinstance(coverage, NotScored):
        return coverage
    got, wanted = word_count(answer), word_count(reference)
    length = min(got / wanted, 1.0)
    return UNIT.score(
        (length + coverage.value) / 2,
        parts={"length": length, "keyword_coverage": coverage.value},
        explanation={"answer_words": got, "expected_words": wanted, **coverage.explanation},
    )


def _source_citation(sample: Sample, findings: Findings) -> Outcome:
    text = fold(sample.answer or "")
    found = [name for name, pattern in _INDICATORS.items() if pattern.search(text)]
    missing = [name for name in _INDICATORS if name not in found]
    return UNIT.score(
        min(len(found) / _FULL_MARKS, 1.0),
        explanation={"expected": list(_INDICATORS), "found": found, "missing": missing},
    )


_PAIR = frozenset({Field.ANSWER, Field.REFERENCE})
_SOURCE = "Evaluation Metrics Documentation, custom metrics"

METRICS: tuple[Metric, ...] = (
    Metric(
        id="lexical.exact_match",
        score=_compared(_exact_match),
        needs=_PAIR,
        summary="Whether answer and reference are equal but for case and white space.",
        source=f"{_SOURCE}, section 1 (Exact Match)",
    ),
    Metric(
        id="lexical.keyword_coverage",
        score=_compared(_keyword_coverage),
        needs=_PAIR,
        summary="Share of the reference's phrases, numbers and longer words in the answer.",
        source=f"{_SOURCE}, section 2 (Keyword Coverage)",
    ),
    Metric(
        id="lexical.number_match",
        score=_compared(_number_match),
        needs=_PAIR,
        summary="Share of the reference's numbers in the answer, compared as values.",
        source=f"{_SOURCE}, section 3 (Number Match)",
    ),
    Metric(
        id="lexical.answer_completeness",
        score=_compared(_answer_completeness),
        needs=_PAIR,
        summary="Mean of the answer's length against the reference's and keyword coverage.",
        source=f"{_SOURCE}, section 4 (Answer Completeness)",
    ),
    Metric(
        id="lexical.source_citation",
        score=_source_citation,
        needs=frozenset({Field.ANSWER}),
        summary="How many kinds of source indicator the answer holds, three being enough.",
        source=f"{_SOURCE}, section 5 (Source Citation Quality)",
    ),
)
