"""Support of claims by chunks."""

from __future__ import annotations

from collections.abc import Sequence

from rag_eval_hooks.findings import Support
from rag_eval_hooks.judges.local.units import Claim, Passage, Unit, as_written
from rag_eval_hooks.judges.local.vectors import NO_VECTORS, Vectors
from rag_eval_hooks.judges.local.windows import RULES, Rules, Window, best_window, weights

__all__ = ["negation_differs", "supports"]


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


def negation_differs(claim: Unit, sentence: Unit, passage: Passage) -> frozenset[str]:
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
    if window.units and (terms := negation_differs(claim.unit, window.closest(), passage)):
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
