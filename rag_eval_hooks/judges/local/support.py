"""Support of claims by chunks: four verdicts from probability, contradictions and what is sure."""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import replace
from math import fsum
from typing import Final

from rag_eval_hooks.findings import ClaimVerdict, Support
from rag_eval_hooks.judges.local.readings import Reading, read
from rag_eval_hooks.judges.local.support_model import support_model
from rag_eval_hooks.judges.local.units import Chunks, Claim, Passage, Unit, as_written, has_form
from rag_eval_hooks.judges.local.windows import RULES, Rules, weights
from rag_eval_hooks.text.languages import language
from rag_eval_hooks.text.measures import agree, is_total

__all__ = ["supports"]

_COVERED: Final = 0.55  # of a claim: least part that one chunk must hold to support it alone
_PARTLY: Final = 0.4  # the same, where no other chunk adds what it lacks
_REFUTED: Final = 0.5  # of the probability that is left where a rule speaks against a claim
_COUNTED: Final = 5  # things that a list may count without a number
_FEW: Final = 1  # terms
_SHARED: Final = 0.25  # of a claim's weight: least part of a chunk that supports it with others
FALSE: Final = re.compile(
    r"\s*(?:it (?:is|was) (?:false|untrue|not true|wrong|incorrect) that"
    r"|es (?:ist|stimmt) (?:falsch|nicht wahr|nicht), dass|il est faux que|es falso que)\s+",
    re.IGNORECASE,
)
_SUPPORTED, _NOT_STATED = ClaimVerdict.SUPPORTED, ClaimVerdict.NOT_STATED
_CONTRADICTED, _UNSURE = ClaimVerdict.CONTRADICTED, ClaimVerdict.UNSURE


def supports(
    claim: Claim,
    chunks: Chunks,
    neutral: frozenset[str] = frozenset(),
    rules: Rules = RULES,
    readings: Sequence[Reading] | None = None,
) -> Support:
    """Return the support of a claim by each passage, alone or together, with the reason.

    Args:
        claim: The claim.
        chunks: The chunks.
        neutral: Terms that need no support, such as those of the question.
        rules: Constants.
        readings: The claim read against each passage, if that is done.
    """
    if denied := FALSE.match(claim.unit.text):
        inner = Claim.of(claim.unit.text[denied.end() :])
        return _turned(supports(inner, chunks, neutral, rules), len(chunks))
    weight = weights(claim, neutral, rules)
    if not weight:
        return _literal(claim, chunks)
    if len(weight) <= _FEW and weight.keys() <= neutral:
        return _unsure(len(chunks), "it only repeats words of the question")
    readings = readings or read(claim, chunks, neutral, rules)
    missing = _unknown(claim, chunks, neutral)
    verdicts = tuple(missing is None and _is_supporting(reading) for reading in readings)
    if any(verdicts):
        return _supported(verdicts, readings)
    if _is_foreign(claim.unit, chunks):
        return _unsure(len(chunks), "the claim is in another language than the chunks")
    return _unsupported(claim, weight, readings, missing, rules)


def _is_supporting(reading: Reading) -> bool:
    return (
        reading.clash is None
        and reading.doubt is None
        and reading.probability >= support_model().unsure[1]
        and (reading.window.score >= _COVERED or reading.entailed)
    )


def _unsupported(
    claim: Claim,
    weight: dict[str, float],
    readings: Sequence[Reading],
    missing: str | None,
    rules: Rules,
) -> Support:
    """Return the verdict on a claim that no chunk supports alone."""
    nowhere = (False,) * len(readings)
    low, high = support_model().unsure
    best = max(readings, key=lambda r: (r.clash is None, r.probability))
    closest = max(readings, key=lambda r: r.window.score)
    where = f"chunk {readings.index(closest) + 1} is closest"
    if closest.clash is not None:
        verdict = _CONTRADICTED if closest.clash.contrary else _NOT_STATED
        reason, quote = f"{where}, but {closest.clash.reason}", closest.clash.quote
        return Support(nowhere, False, reason, verdict, quote, _REFUTED * closest.probability)
    if missing:
        return Support(nowhere, False, missing, _NOT_STATED, "", _REFUTED * closest.probability)
    if best.doubt:
        return Support(nowhere, False, best.doubt, _UNSURE, "", best.probability)
    if _joint(weight, readings) >= rules.joint * sum(weight.values()):
        reason = "several chunks cover it together"
        return Support(nowhere, True, reason, _SUPPORTED, "", max(best.probability, high))
    if best.clash is None and best.probability >= high and best.window.score >= _PARTLY:
        return _supported(tuple(reading is best for reading in readings), readings)
    lacking = as_written(weight.keys() - closest.window.held, claim.unit)
    reason = f"no chunk holds enough of it; {where} and lacks: {lacking}"
    verdict = _NOT_STATED if best.probability <= low else _UNSURE
    return Support(nowhere, False, reason, verdict, "", best.probability)


def _supported(verdicts: tuple[bool, ...], readings: Sequence[Reading]) -> Support:
    at = max((i for i, yes in enumerate(verdicts) if yes), key=lambda i: readings[i].probability)
    quote = readings[at].window.closest().text
    return Support(
        verdicts, False, f"chunk {at + 1}: {quote}", _SUPPORTED, quote, readings[at].probability
    )


def _turned(found: Support, chunks: int) -> Support:
    """Return the support of "it is false that" a claim."""
    reason = f"the claim denies what is judged so: {found.reason}"
    if found.verdict is _SUPPORTED:
        found = replace(found, by_chunk=(False,) * chunks, together=False, verdict=_CONTRADICTED)
        return replace(found, reason=reason, probability=0.05)
    if found.verdict is _CONTRADICTED:
        return Support((False,) * chunks, True, reason, _SUPPORTED, found.quote, 0.9)
    return replace(found, reason=reason, verdict=_UNSURE)


def _literal(claim: Claim, chunks: Chunks) -> Support:
    """Return the support of a claim without content words, such as "it is": only word for word."""
    verdicts = tuple(
        any(_in_a_row(claim.unit.words, unit.words) for unit in passage.units) for passage in chunks
    )
    if any(verdicts):
        return Support(verdicts, reason="a chunk says it word for word")
    return _unsure(len(chunks), "it has no content word and no chunk says it word for word")


def _in_a_row(words: Sequence[str], sentence: Sequence[str]) -> bool:
    return f" {' '.join(words)} " in f" {' '.join(sentence)} "


def _unknown(claim: Claim, chunks: Chunks, neutral: frozenset[str]) -> str | None:
    """Return as a reason the quantity or name of the claim that no passage holds, or None."""
    for said in claim.unit.measures:
        if said.text.isalpha() and said.number <= _COUNTED:
            continue  # "three ways" may count what the chunk lists
        if not any(agree(said, m) for m in chunks.measures) and not is_total(said, chunks.measures):
            return f"the number {said.text} is in no chunk"
    for phrase, parts in claim.names.items():
        if not any(_has_name(passage, parts - neutral) for passage in chunks):
            return f"the name {phrase!r} is in no chunk"
    return None


def _has_name(passage: Passage, parts: frozenset[str]) -> bool:
    return all(has_form(passage, part) for part in parts)


def _is_foreign(claim: Unit, chunks: Chunks) -> bool:
    """Return whether claim and chunks are in different languages, as far as that can be known."""
    said = language(claim.words)
    if said is None:
        return False
    stated = {passage.language for passage in chunks}
    return bool(stated - {None}) and said not in stated


def _unsure(chunks: int, reason: str) -> Support:
    return Support((False,) * chunks, False, reason, _UNSURE)


def _joint(weight: dict[str, float], readings: Sequence[Reading]) -> float:
    """Return the weight of the terms that the windows hold together.

    Left out are those that contradict, and those that share too little with the claim to speak of
    the same thing, such as a bare number.
    """
    least = _SHARED * sum(weight.values())
    held = frozenset[str]().union(
        *(
            r.window.held
            for r in readings
            if r.clash is None
            and len(r.window.held) > 1
            and fsum(weight[term] for term in r.window.held & weight.keys()) >= least
        )
    )
    return fsum(weight[term] for term in held & weight.keys())
