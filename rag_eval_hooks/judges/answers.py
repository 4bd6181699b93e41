"""Collects a model's answers about one finding."""

from __future__ import annotations

import operator
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import reduce
from typing import Any, Final

from rag_eval_hooks.findings import ClaimVerdict, Finding, Findings, Support
from rag_eval_hooks.prompts import Ask, Unit
from rag_eval_hooks.sample import Sample
from rag_eval_hooks.score import Cause, NotScored
from rag_eval_hooks.usage import Usage, tokens

_SPREAD: Final = "chunks that state parts of the claim did not fit into one call"
_SUPPORTS: Final = frozenset({Finding.ANSWER_SUPPORT, Finding.REFERENCE_SUPPORT})
_RANK: Final = (
    ClaimVerdict.SUPPORTED,
    ClaimVerdict.UNSURE,
    ClaimVerdict.CONTRADICTED,
    ClaimVerdict.NOT_STATED,
)


@dataclass(slots=True)
class Answers:
    ask: Ask
    values: dict[str, Any] = field(default_factory=dict)
    flawed: set[str] = field(default_factory=set)
    """Items whose reply had a warning. The judge asks about these items again."""
    failure: NotScored | None = None
    """Why the judge stopped asking, or None."""
    problem: str = ""
    """Defect of the last reply, without the reply's text."""
    usage: Usage = field(default_factory=Usage)

    def open(self, keys: Sequence[str]) -> tuple[str, ...]:
        return tuple(key for key in keys if key not in self.values or key in self.flawed)

    def take(self, values: Mapping[str, Any]) -> None:
        """Add valid replies. The second reply about an item is final, even with a warning."""
        for key, content in values.items():
            is_new = bool(getattr(content, "warning", "")) and key not in self.values
            (self.flawed.add if is_new else self.flawed.discard)(key)
            self.values[key] = content

    def charge(self, usage: Usage, problem: str, failure: NotScored | None) -> None:
        """Add one request's usage and its problem or failure.

        The problem explains items without content.
        """
        self.usage += usage
        self.problem = problem or self.problem
        self.failure = failure or self.failure

    def finding(self, advice: str = "") -> Findings:
        """Return the finding with its value, or the cause of its absence.

        Items without a verdict become unsure if other items have a verdict.
        """
        ask, kind, asked = self.ask, self.ask.kind, self.ask.items()
        missing = sum(key not in self.values for key in asked)
        content: Any
        warnings: dict[Finding, tuple[str, ...]] = {}
        if missing and not _is_enough(ask.spec.unit, len(asked) - missing, len(asked)):
            detail = f"the judge gave no valid reply for {missing} of {len(asked)} items"
            if self.problem:
                detail += f"; last problem: {self.problem}{advice}"
            content = self.failure or NotScored(Cause.JUDGE_FAILED, detail)
        else:
            content = ask.content(self.values)
            if missing and ask.spec.unit is Unit.SENTENCE:
                note = f"the judge gave no valid claims for {missing} of {len(asked)} sentences"
                warnings = {kind: (note,)}
        usage = {kind: self.usage} if self.usage != Usage() else {}
        return Findings.of(kind, content, usage=usage, warnings=warnings)


def _is_enough(unit: Unit, valid: int, asked: int) -> bool:
    if unit is Unit.SENTENCE:
        return 3 * valid >= 2 * asked
    return valid > 0 and unit not in (Unit.WHOLE, Unit.TEXT)


def chunk_groups(sample: Sample, budget: int, most: int = 10**6) -> list[tuple[int, ...]]:
    """Group chunks in order, each group within a token budget and at most `most` chunks.

    A chunk longer than the budget is its own group.
    """
    groups: list[tuple[int, ...]] = []
    left = 0
    for number, context in enumerate(sample.contexts or (), start=1):
        size = tokens(context.text)
        if groups and size <= left and len(groups[-1]) < most:
            groups[-1] += (number,)
        else:
            groups.append((number,))
            left = budget
        left -= size
    return groups


def about_group(asks: Iterable[Ask], group: tuple[int, ...]) -> list[Answers]:
    """Return empty answers about a group of chunks.

    Only the first group includes findings that are not split, so that the judge asks once.
    """
    is_first = group[:1] in ((), (1,))
    return [
        Answers(replace(ask, shown=group) if ask.spec.splits else ask)
        for ask in asks
        if is_first or ask.spec.splits
    ]


def joined(ask: Ask, parts: Sequence[Answers]) -> Answers:
    whole = Answers(ask, _contents(ask.kind, parts))
    for part in parts:
        whole.charge(part.usage, part.problem, part.failure)
    return whole


def _contents(kind: Finding, parts: Sequence[Answers]) -> dict[str, Any]:
    """Merge contents by item.

    A claim is unsure if only several groups together state it. One group that mentions an entity
    suffices.
    """
    contents: dict[str, Any] = {}
    for key in {key: None for part in parts for key in part.values}:
        found = [part.values[key] for part in parts if key in part.values]
        is_complete = len(found) == len(parts)
        if kind in _SUPPORTS:
            if is_complete:
                contents[key] = _unless_spread(reduce(_union, found), parts)
        elif kind is Finding.ENTITIES_FOUND:
            hits = [verdict for verdict in found if verdict.holds]
            if hits or is_complete:
                contents[key] = (hits or found)[0]
        else:
            contents[key] = found[-1]
    return contents


def _union(one: Support, other: Support) -> Support:
    """Merge two groups' verdicts on a claim. Support overrides other verdicts."""
    better, worse = sorted((one, other), key=lambda each: _RANK.index(each.verdict))
    weighed = (better, worse) if better.verdict is worse.verdict else (better,)
    probabilities = (one.probability, other.probability)
    by_chunk = tuple(map(operator.or_, one.by_chunk, other.by_chunk))
    return replace(
        better,
        by_chunk=by_chunk,
        together=(one.together or other.together) and not any(by_chunk),
        probability=max((p for p in probabilities if p is not None), default=None),
        reason=" ".join(dict.fromkeys(each.reason for each in weighed if each.reason)),
        partly=one.partly | other.partly,
    )


def _unless_spread(content: Support, parts: Sequence[Answers]) -> Support:
    stating = sum(bool(content.partly.intersection(part.ask.shown or ())) for part in parts)
    if content.supported or stating < 2:
        return content
    return replace(content, verdict=ClaimVerdict.UNSURE, reason=_SPREAD)
