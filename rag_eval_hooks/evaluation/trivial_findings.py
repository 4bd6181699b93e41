"""Findings that are known without a judge."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from rag_eval_hooks.findings import (
    Finding,
    Findings,
    Questions,
    Support,
    TokenScore,
    Verdict,
)
from rag_eval_hooks.prompts import ABOUT, SPECS
from rag_eval_hooks.sample import Field, Sample
from rag_eval_hooks.score import NotScored

__all__ = ["from_items", "from_texts", "misfits"]

_NOTHING = "no context was retrieved"
_ON_NOTHING = {
    Finding.ANSWER_SUPPORT: Support((), reason=_NOTHING),
    Finding.REFERENCE_SUPPORT: Support((), reason=_NOTHING),
    Finding.ENTITIES_FOUND: Verdict(False, _NOTHING),
}


def from_texts(sample: Sample) -> Findings:
    """Return the findings of a blank answer or reference: no claims, questions or likeness."""
    answer, reference = _blank(sample.answer), _blank(sample.reference)
    findings = Findings()
    if answer:
        blank = Findings(answer_claims=(), questions=Questions(()), question_similarity=())
        findings = findings.merged(blank)
    if reference:
        findings = findings.merged(Findings(reference_claims=(), entities=()))
    if answer or reference:
        unlike = Findings(answer_similarity=0.0, token_score=TokenScore(0.0, 0.0, 0.0))
        findings = findings.merged(unlike)
    return findings


def from_items(kind: Finding, findings: Findings, chunks: Sequence[str]) -> Findings:
    """Return a finding about items or chunks that are absent, or of which there are none.

    Returns:
        The finding, or nothing where it has to be asked for.
    """
    listed: tuple[str, ...] = ()
    if kind in ABOUT:
        base: tuple[str, ...] | NotScored = getattr(findings, ABOUT[kind])
        if isinstance(base, NotScored):
            return Findings.absent(frozenset({kind}), base)
        if not base:
            return _finding(kind, ())
        listed = base
    if chunks or Field.CONTEXTS not in SPECS[kind].shows:
        return Findings()
    if kind in (Finding.CONTEXT_RATINGS, Finding.GROUNDEDNESS_RATINGS):
        # Nothing retrieved answers nothing and grounds nothing: the lowest step of both rubrics.
        return _finding(kind, (0, 0))
    if listed and kind not in _ON_NOTHING:
        return Findings()
    return _finding(kind, tuple(_ON_NOTHING[kind] for _ in listed))


def misfits(findings: Findings, chunks: Sequence[str]) -> dict[Finding, str]:
    """Return findings whose verdicts are not one per item, or not one per chunk, with the reason.

    A judge can be the user's own code: a verdict too few would be a wrong score.
    """
    wrong: dict[Finding, str] = {}
    for kind, base in ABOUT.items():
        if kind is not Finding.QUESTION_SIMILARITY:
            verdicts, listed = getattr(findings, kind.value), getattr(findings, base.value)
            wrong |= _unequal(kind, verdicts, listed)
    for kind in (Finding.RELEVANCE, Finding.RELEVANCE_TO_ANSWER):
        wrong |= _unequal(kind, getattr(findings, kind.value), tuple(chunks))
    for kind in (Finding.ANSWER_SUPPORT, Finding.REFERENCE_SUPPORT):
        supports = getattr(findings, kind.value)
        for support in () if isinstance(supports, NotScored) else supports:
            wrong |= _unequal(kind, support.by_chunk, tuple(chunks))
    return wrong


def _unequal(kind: Finding, verdicts: Any, listed: Any) -> dict[Finding, str]:
    if isinstance(verdicts, NotScored) or isinstance(listed, NotScored):
        return {}
    if len(verdicts) == len(listed):
        return {}
    return {kind: f"the judge gave {len(verdicts)} verdicts for {len(listed)} items"}


def _finding(kind: Finding, content: Any) -> Findings:
    return Findings(**{kind.value: content})


def _blank(text: str | None) -> bool:
    return not (text or "").strip()
