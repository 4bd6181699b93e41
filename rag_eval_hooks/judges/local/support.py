"""Support of claims by chunks, and agreement of answer and reference."""

from __future__ import annotations

from collections.abc import Sequence

from rag_eval_hooks.findings import Support, Verdict
from rag_eval_hooks.judges.local.units import Claim, Passage, Unit, as_written
from rag_eval_hooks.judges.local.windows import (
    NO_VECTORS,
    RULES,
    Rules,
    Vectors,
    Window,
    best_window,
    weights,
)

__all__ = ["agrees", "denies", "supports"]


_SHORT = 6  # terms; a text of no more is an answer in itself, not a description
_SHARED = 0.25  # of a claim's weight: least part of a chunk that supports it with others


def _unknown(claim: Claim, passages: Sequence[Passage], neutral: frozenset[str]) -> str | None:
    """Return as a reason the number or name of the claim that no passage holds, or None.

    `neutral` are terms that need no support, such as those of the question.
    """
    for number in sorted(claim.unit.numbers):
        if not any(passage.has_number(number) for passage in passages):
            return f"the number {number} is in no chunk"
    for phrase, parts in claim.names.items():
        if not any(_has_name(passage, parts - neutral) for passage in passages):
            return f"the name {phrase!r} is in no chunk"
    return None


def _has_name(passage: Passage, parts: frozenset[str]) -> bool:
    return all(part in passage.index for part in parts)


def _negation_differs(claim: Unit, sentence: Unit, passage: Passage) -> frozenset[str]:
    """Return the terms that one of the two negates and the other states; empty for no conflict.

    Args:
        claim: The claim.
        sentence: The sentence that is closest to it.
        passage: Where the sentence stands: what the claim denies and the passage denies
            elsewhere is no conflict.
    """
    for scope in claim.negated:
        # One stated word is enough where the sentence denies nothing at all.
        stated = scope if sentence.negated else scope & sentence.affirmed
        if stated and stated <= sentence.affirmed and not scope & passage.denied:
            return scope
    for scope in sentence.negated:
        if scope <= claim.affirmed - claim.denied - sentence.affirmed:
            return scope if _same_subject(claim, sentence, scope) else frozenset()
    return frozenset()


def _same_subject(claim: Unit, sentence: Unit, scope: frozenset[str]) -> bool:
    """Return whether the sentence holds at least half of the claim's terms outside the scope."""
    rest = claim.terms - scope
    return 2 * len(rest & sentence.terms) >= len(rest)


def _conflict(
    claim: Claim, passage: Passage, window: Window, neutral: frozenset[str]
) -> str | None:
    """Return the reason why a window does not support a claim that it covers, or None.

    The number must stand in the window; a name may stand anywhere in its chunk, since sentences
    after the first say "he" or "it".
    """
    stated = frozenset[str]().union(*(unit.terms for unit in window.units))
    values = frozenset().union(*(unit.numbers for unit in window.units))
    for number in sorted(claim.unit.numbers - values):
        if number.percent or str(number) not in stated:
            return f"the number {number} is not there"
    for phrase, parts in claim.names.items():
        if not _has_name(passage, parts - neutral):
            return f"the name {phrase!r} is not there"
    if window.units and (terms := _negation_differs(claim.unit, window.closest(), passage)):
        return f"the negation differs at {as_written(terms, claim.unit, window.closest())}"
    return None


def supports(
    claim: Claim,
    passages: Sequence[Passage],
    neutral: frozenset[str] = frozenset(),
    vectors: Vectors = NO_VECTORS,
    rules: Rules = RULES,
) -> Support:
    """Return the support of a claim by each passage, alone or together, with the reason."""
    nowhere = (False,) * len(passages)
    if missing := _unknown(claim, passages, neutral):
        return Support(nowhere, reason=missing)
    weight = weights(claim, neutral, rules)
    if not weight:
        return _literal(claim, passages)
    windows = [best_window(weight, passage, rules) for passage in passages]
    against = [
        _conflict(claim, passage, window, neutral)
        for passage, window in zip(passages, windows, strict=True)
    ]
    cosines = [vectors.best(claim.unit.text, passage) for passage in passages]
    verdicts = tuple(
        why is None and _enough(window.score, cosine, rules)
        for why, window, cosine in zip(against, windows, cosines, strict=True)
    )
    if any(verdicts):
        return Support(verdicts, reason=_found(verdicts, windows))
    held = _joint(weight, windows, against)
    if sum(weight[term] for term in held) >= rules.joint * sum(weight.values()):
        return Support(nowhere, together=True, reason="several chunks cover it together")
    return Support(nowhere, reason=_why_not(claim, weight, windows, against))


def _literal(claim: Claim, passages: Sequence[Passage]) -> Support:
    """Return the support of a claim without content words, such as "it is": only word for word."""
    verdicts = tuple(
        any(_in_a_row(claim.unit.words, unit.words) for unit in passage.units)
        for passage in passages
    )
    said = "a chunk says it" if any(verdicts) else "it has no content word and no chunk says it"
    return Support(verdicts, reason=f"{said} word for word")


def _in_a_row(words: Sequence[str], sentence: Sequence[str]) -> bool:
    return f" {' '.join(words)} " in f" {' '.join(sentence)} "


def _enough(score: float, cosine: float | None, rules: Rules) -> bool:
    if score >= rules.covered or cosine is None:
        return score >= rules.covered
    return cosine >= rules.same or (cosine >= rules.cosine and score >= rules.paraphrased)


def _joint(
    weight: dict[str, float], windows: Sequence[Window], against: Sequence[str | None]
) -> frozenset[str]:
    """Return the terms that the windows hold together.

    Left out are those with an opposite statement, and those that share too little with the claim
    to speak of the same thing, such as a bare number.
    """
    least = _SHARED * sum(weight.values())
    held = frozenset[str]().union(
        *(
            window.held
            for window, why in zip(windows, against, strict=True)
            if (why is None or not why.startswith("the negation"))
            and len(window.held) > 1
            and sum(weight[term] for term in window.held) >= least
        )
    )
    return held & weight.keys()


def _found(verdicts: Sequence[bool], windows: Sequence[Window]) -> str:
    at = max((i for i, yes in enumerate(verdicts) if yes), key=lambda i: windows[i].score)
    quote = windows[at].closest().text if windows[at].units else ""
    return f"chunk {at + 1}: {quote}" if quote else f"chunk {at + 1} says the same"


def _why_not(
    claim: Claim,
    weight: dict[str, float],
    windows: Sequence[Window],
    against: Sequence[str | None],
) -> str:
    at = max(range(len(windows)), key=lambda i: windows[i].score)
    if why := against[at]:
        return f"chunk {at + 1} is closest, but {why}"
    missing = as_written(weight.keys() - windows[at].held, claim.unit)
    return f"no chunk holds enough of it; chunk {at + 1} is closest and lacks: {missing}"


def agrees(
    claim: Claim,
    text: Passage,
    question: frozenset[str],
    vectors: Vectors = NO_VECTORS,
    rules: Rules = RULES,
) -> Verdict:
    """Return whether a text that answers the same question states a claim.

    Terms that the question holds are neutral. A text that is just the bare answer ("Cornish
    heath") states every claim that contains it.
    """
    if not text.units:
        return Verdict(False, "the other text is empty")
    weight = _novel(weights(claim, rules=rules), question)
    if not weight:
        return Verdict(False, "the claim holds no content word")
    window = best_window(weight, text, rules)
    if where := _denied(claim, window, text):
        return Verdict(False, f"the negation differs at {where}")
    bare = _bare_answer(text, question)
    if bare and bare <= claim.unit.terms:
        return Verdict(True, "the claim contains the bare answer")
    if differing := _differs(claim, text, question):
        return Verdict(False, differing)
    if window.score >= rules.agreed:
        return Verdict(True, f"stated: {window.closest().text}")
    cosine = vectors.best(claim.unit.text, text)
    if cosine is not None and cosine >= rules.same:
        return Verdict(True, f"said in other words, cosine {cosine:.2f}")
    return Verdict(False, f"not stated: {as_written(weight.keys() - window.held, claim.unit)}")


def denies(
    claim: Claim, text: Passage, question: frozenset[str], rules: Rules = RULES
) -> str | None:
    """Return the words by which a claim denies what the text states, or the reverse, or None."""
    weight = _novel(weights(claim, rules=rules), question)
    return _denied(claim, best_window(weight, text, rules), text) if weight else None


def _denied(claim: Claim, window: Window, text: Passage) -> str | None:
    if not window.units:
        return None
    closest = window.closest()
    found = _negation_differs(claim.unit, closest, text)
    return as_written(found, claim.unit, closest) if found else None


def _novel(weight: dict[str, float], question: frozenset[str]) -> dict[str, float]:
    """Return the terms that the question lacks; all of them if it lacks none."""
    return {term: w for term, w in weight.items() if term not in question} or weight


def _bare_answer(text: Passage, question: frozenset[str]) -> frozenset[str]:
    """Return the terms of a text of one short sentence, without those of the question."""
    if len(text.units) > 1:
        return frozenset()
    found = text.units[0].terms
    return (found - question or found) if len(found) <= _SHORT else frozenset()


def _differs(claim: Claim, text: Passage, question: frozenset[str]) -> str | None:
    for number in sorted(claim.unit.numbers):
        if not text.has_number(number) and str(number) not in question:
            return f"the number {number} is not in the other text"
    for phrase, parts in claim.names.items():
        if parts and not parts & (question | text.index.keys()):
            return f"the name {phrase!r} is not in the other text"
    return None
