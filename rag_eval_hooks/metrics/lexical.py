"""The suite `lexical`: metrics that compare the answer's words and numbers with the reference's.

Scores are in [0, 1] and need no model. A blank answer scores 0. A metric that needs a reference
gives no score if the reference is blank.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Container, Sequence
from functools import partial

from rag_eval_hooks.findings import Findings
from rag_eval_hooks.metrics.metric import Metric, metric
from rag_eval_hooks.sample import Sample
from rag_eval_hooks.score import UNIT, Cause, NotScored, Outcome, Score
from rag_eval_hooks.text.folding import fold, squash, word_count
from rag_eval_hooks.text.key_terms import Keyword, Searched, keywords
from rag_eval_hooks.text.measures import agree, measures, number_spans, numbers

_FULL_MARKS = 3  # number of distinct indicators that gives a citation score of 1
_MOST_NUMBERS = 300  # The metric compares each number with every quantity in the answer.

_SOURCE_NAME = (
    r"(?:the |this |these |your |an? )?(?:\w+ )?(?:sources?|documents?|pages?|tables?|pdfs?"
    r"|passages?|contexts?|reports?|articles?|sections?|chapters?|manuals?|handbooks?|\[\d)"
)


def _word(start: str) -> str:
    # `re` finds a leading literal fast, and a leading `\b` slowly.
    return rf"{start}(?<!\w{start})"


_INDICATORS: dict[str, re.Pattern[str]] = {
    name: re.compile(pattern)
    for name, pattern in {
        "source:": _word("source") + r"s?[*_]*\s?:",
        "table:": _word("table") + r"s?[*_]*\s?:",
        "page": _word("p") + r"(?:ages?\b|p?\. ?\d)",
        "document": _word("document") + r"s?\b",
        "pdf": _word("pdf") + r"s?\b",
        "according to": _word("according to") + r"\b",
        "based on": _word("based on") + r"\b",
        "from": _word("from ") + _SOURCE_NAME,
        # A JSON list is not a citation.
        "[n]": r"\[(?<!:\[)(?<!: \[)\^?\d{1,3}(?:\s?[,;\u2013-]\s?\d{1,3})*\]",
        "(author year)": r"\([^()\d]{2,60}[,\s]\s?(?:1[5-9]|20)\d\d[a-z]?\)",
    }.items()
}


def _compared(compare: Callable[[str, str], Outcome]) -> Callable[[Sample, Findings], Outcome]:
    def score(sample: Sample, findings: Findings) -> Outcome:
        if not (sample.reference or "").strip():
            return NotScored(Cause.UNDEFINED, "the reference is blank")
        return compare(sample.answer or "", sample.reference or "")

    return score


def _exact_match(answer: str, reference: str) -> Score:
    equal = squash(answer) == squash(reference)
    return UNIT.score(float(equal), label=str(equal), explanation={"equal": equal})


def _found(
    answer: str, expected: Sequence[Keyword], also: Container[Keyword] = frozenset()
) -> Score:
    searched = Searched.of(answer)
    held = {item: searched.holds(item) or item in also for item in expected}
    explanation = {
        "expected": list(map(str, expected)),
        "found": [str(item) for item in expected if held[item]],
        "missing": [str(item) for item in expected if not held[item]],
    }
    return UNIT.score(len(explanation["found"]) / len(expected), explanation=explanation)


def _keyword_coverage(answer: str, reference: str) -> Outcome:
    expected = keywords(reference)
    if not expected:
        return NotScored(Cause.UNDEFINED, "the reference contains no keyword")
    return _found(answer, expected)


def _number_match(answer: str, reference: str) -> Outcome:
    stated = numbers(reference)
    if not stated:
        return NotScored(Cause.UNDEFINED, "the reference contains no number")
    if len(stated) > _MOST_NUMBERS:
        detail = f"the reference contains more than {_MOST_NUMBERS} numbers"
        return NotScored(Cause.MISSING_INPUT, detail)
    return _found(answer, list(dict.fromkeys(stated)), _restated_numbers(answer, reference))


def _restated_numbers(answer: str, reference: str) -> frozenset[Keyword]:
    said = measures(answer)
    stated = [
        one
        for one in measures(reference)
        if any((one.unit == other.unit or not one.unit) and agree(other, one) for other in said)
    ]
    return frozenset(
        number
        for start, _, number in number_spans(reference)
        if any(one.start <= start < one.end for one in stated)
    )


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
    explanation = {"expected": list(_INDICATORS), "found": found, "missing": missing}
    return UNIT.score(min(len(found) / _FULL_MARKS, 1.0), explanation=explanation)


_metric = partial(metric, "lexical")

METRICS: tuple[Metric, ...] = (
    _metric("exact_match", _compared(_exact_match)),
    _metric("keyword_coverage", _compared(_keyword_coverage)),
    _metric("number_match", _compared(_number_match)),
    _metric("answer_completeness", _compared(_answer_completeness)),
    _metric("source_citation", _source_citation),
)
