"""Findings about cut texts: nothing counts as missing that may stand in what was cut."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import replace
from typing import Any, Final

from rag_eval_hooks.claim_verdict import CUT
from rag_eval_hooks.findings import (
    ChunkRelevance,
    ClaimVerdict,
    Finding,
    Findings,
    Support,
    Verdict,
)
from rag_eval_hooks.metrics import Metric
from rag_eval_hooks.prompts import ABOUT, SPECS
from rag_eval_hooks.sample import Field, Sample
from rag_eval_hooks.score import Cause, NotScored

__all__ = ["cut_fields", "warnings_of", "without_cut_verdicts"]

_BEST: Final = {Finding.CONTEXT_RATINGS: 2, Finding.GROUNDEDNESS_RATINGS: 2}
_CUT_RATING: Final = NotScored(
    Cause.UNDEFINED, "limits cut the contexts, and what is left does not state all", undecided=True
)


def cut_fields(sample: Sample) -> frozenset[Field]:
    """Return the fields of a sample that limits cut."""
    names = {"contexts" if name.endswith("].text") else name for name in sample.truncated}
    return frozenset(field for field in Field if field.value in names)


def without_cut_verdicts(findings: Findings, sample: Sample) -> Findings:
    """Return findings in which no verdict says that a cut text does not state something.

    Such a verdict is unsure. A chunk that is not useful is unsure if that chunk was cut.
    """
    fields = cut_fields(sample)
    if not fields:
        return findings
    changed: dict[str, Any] = {}
    for kind in ABOUT.keys() & SPECS.keys():
        found = getattr(findings, kind)
        if not isinstance(found, NotScored) and fields & {*SPECS[kind].shows} - {Field.QUESTION}:
            changed[kind] = tuple(map(_unless_missing, found))
    for kind in (Finding.RELEVANCE, Finding.RELEVANCE_TO_ANSWER):
        found = getattr(findings, kind)
        if not isinstance(found, NotScored):
            cut = [f"contexts[{at}].text" in sample.truncated for at in range(len(found))]
            pairs = zip(found, cut, strict=True)
            changed[kind] = tuple(_unless_useful(one) if is_cut else one for one, is_cut in pairs)
    for kind, best in _BEST.items():
        ratings = getattr(findings, kind)
        is_rated = not isinstance(ratings, NotScored) and Field.CONTEXTS in fields
        if is_rated and set(ratings) - {best, None}:
            changed[kind] = _CUT_RATING
    return replace(findings, **changed)


def warnings_of(
    metric: Metric, read: Iterable[Finding], fields: frozenset[Field]
) -> tuple[str, ...]:
    """Return a warning for each cut text that a metric reads."""
    seen = {*metric.needs}.union(*(SPECS[kind].shows for kind in read if kind in SPECS))
    return tuple(f"limits cut the {field.value}" for field in Field if field in seen & fields)


def _unless_missing(one: Support | Verdict) -> Support | Verdict:
    if isinstance(one, Verdict):
        return one if one.holds or not one.sure else replace(one, sure=False, reason=CUT)
    is_missing = one.verdict is ClaimVerdict.NOT_STATED
    return replace(one, verdict=ClaimVerdict.UNSURE, reason=CUT) if is_missing else one


def _unless_useful(one: ChunkRelevance) -> ChunkRelevance:
    return one if one.useful else replace(one, sure=False, reason=CUT)
