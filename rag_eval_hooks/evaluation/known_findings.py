"""Findings that need no judge, and verdicts that a judge cannot give."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import Any, Final

from rag_eval_hooks.findings import (
    CUT,
    ChunkRelevance,
    ClaimVerdict,
    Finding,
    Findings,
    Questions,
    Support,
    TokenScore,
    Verdict,
)
from rag_eval_hooks.prompts import ABOUT, SPECS
from rag_eval_hooks.sample import Field, Sample
from rag_eval_hooks.score import Cause, NotScored

_NOTHING: Final = "no context was retrieved"
_ON_NOTHING: Final = {
    Finding.ANSWER_SUPPORT: Support((), reason=_NOTHING),
    Finding.REFERENCE_SUPPORT: Support((), reason=_NOTHING),
    Finding.ENTITIES_FOUND: Verdict(False, _NOTHING),
}
_RELEVANCE: Final = frozenset({Finding.RELEVANCE, Finding.RELEVANCE_TO_ANSWER})
_JUDGED: Final = ABOUT.keys() & SPECS.keys() | _RELEVANCE
"""Findings with a verdict for each item or chunk."""
_RATINGS: Final = (Finding.CONTEXT_RATINGS, Finding.GROUNDEDNESS_RATINGS)
_BEST_RATING: Final = 2
_CUT_RATING: Final = NotScored(
    Cause.UNDEFINED, "limits cut the contexts, and the rest does not state all", undecided=True
)


def from_texts(sample: Sample) -> Findings:
    """Return the findings of a blank answer or reference: no claims, questions or similarity."""
    known: dict[str, Any] = {}
    answer, reference = _is_blank(sample.answer), _is_blank(sample.reference)
    if answer:
        known |= {"answer_claims": (), "questions": Questions(()), "question_similarity": ()}
    if reference:
        known |= {"reference_claims": (), "entities": ()}
    if answer or reference:
        known |= {"answer_similarity": 0.0, "token_score": TokenScore(0.0, 0.0, 0.0)}
    return Findings(**known)


def _is_blank(text: str | None) -> bool:
    return not (text or "").strip()


def from_items(kind: Finding, findings: Findings, chunks: Sequence[str]) -> Findings:
    """Return a finding about absent items or chunks, or nothing if it needs a judge."""
    items: tuple[str, ...] = ()
    if kind in ABOUT:
        base = getattr(findings, ABOUT[kind])
        if isinstance(base, NotScored):
            return Findings.absent(frozenset({kind}), base)
        items = base.texts if isinstance(base, Questions) else base
        if not items:
            return Findings.of(kind, ())
    if chunks or kind not in SPECS or Field.CONTEXTS not in SPECS[kind].shows:
        return Findings()
    if kind in _RATINGS:
        # An empty retrieval gets the lowest step of both rubrics.
        return Findings.of(kind, (0, 0))
    return Findings.of(kind, (_ON_NOTHING.get(kind),) * len(items))


def misfits(findings: Findings, chunks: Sequence[str]) -> Findings:
    """Return as absent the findings that lack one verdict per item and one flag per chunk.

    A user's judge may return too few verdicts, which would give a wrong score.
    """
    absent: dict[str, Any] = {}
    for kind in _JUDGED:
        verdicts = getattr(findings, kind)
        items = getattr(findings, ABOUT[kind]) if kind in ABOUT else chunks
        if isinstance(verdicts, NotScored) or isinstance(items, NotScored):
            continue
        flags = [one.by_chunk for one in verdicts if isinstance(one, Support)]
        for given, expected in ((verdicts, items), *((one, chunks) for one in flags)):
            if len(given) != len(expected):
                detail = f"the judge gave {len(given)} verdicts for {len(expected)} items"
                absent[kind.value] = NotScored(Cause.JUDGE_FAILED, detail)
    return Findings(**absent)


def cut_fields(sample: Sample) -> frozenset[Field]:
    """Return the fields of a sample that limits cut."""
    names = {"contexts" if name.endswith("].text") else name for name in sample.truncated}
    return frozenset(field for field in Field if field.value in names)


def without_cut_verdicts(findings: Findings, sample: Sample) -> Findings:
    """Make every verdict unsure that says that a cut text does not state something.

    A chunk that is not useful becomes unsure if it was cut.
    """
    fields = cut_fields(sample)
    if not fields:
        return findings
    cut = [f"contexts[{at}].text" in sample.truncated for at in range(len(sample.contexts or ()))]
    changed: dict[str, Any] = {}
    for kind, spec in SPECS.items():
        found = getattr(findings, kind)
        if isinstance(found, NotScored):
            continue
        if kind in ABOUT and fields & {*spec.shows} - {Field.QUESTION}:
            changed[kind] = tuple(map(_unless_missing, found))
        elif kind in _RELEVANCE:
            pairs = zip(found, cut, strict=True)
            changed[kind] = tuple(_unless_useless(one) if is_cut else one for one, is_cut in pairs)
        elif kind in _RATINGS and Field.CONTEXTS in fields and set(found) - {_BEST_RATING, None}:
            changed[kind] = _CUT_RATING
    return replace(findings, **changed)


def _unless_missing(one: Support | Verdict) -> Support | Verdict:
    if isinstance(one, Verdict):
        return one if one.holds or not one.sure else replace(one, sure=False, reason=CUT)
    is_missing = one.verdict is ClaimVerdict.NOT_STATED
    return replace(one, verdict=ClaimVerdict.UNSURE, reason=CUT) if is_missing else one


def _unless_useless(one: ChunkRelevance) -> ChunkRelevance:
    return one if one.useful else replace(one, sure=False, reason=CUT)
