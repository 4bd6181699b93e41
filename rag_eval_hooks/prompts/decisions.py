"""A finding as questions to a decision model, and its answers as contents. Pure."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Final, NamedTuple, TypeAlias

from rag_eval_hooks.findings import (
    ChunkRelevance,
    ClaimVerdict,
    Finding,
    GEval,
    Support,
    Verdict,
)
from rag_eval_hooks.prompts.ask import Ask
from rag_eval_hooks.prompts.elements import AgreementElement, GEvalElement, View, content_of
from rag_eval_hooks.prompts.specs import Unit

Question: TypeAlias = dict[str, Any]
"""A question in the format of System One, containing no text of the sample."""
Answer: TypeAlias = tuple[float, ...]
"""Probability of a statement, or of each option of a choice or score, in order."""
_VERDICTS: Final = (ClaimVerdict.SUPPORTED, ClaimVerdict.CONTRADICTED, ClaimVerdict.NOT_STATED)
_HALF: Final = 0.5


def questions(ask: Ask, key: str) -> list[Question]:
    """Return the questions about one item. The first decides the verdict."""
    spec, text = ask.spec, ask.question(key)
    levels = [f"{level:g}" for level in spec.levels]
    if ask.kind is Finding.GEVAL:
        names = GEvalElement.model_fields
        return [_question("score", f"Score {name} alone: {text}", levels) for name in names]
    if levels:
        return [_question("score", text, levels)]
    if not issubclass(spec.element, AgreementElement):
        return [_question("noul", text)]
    chunks = ask.chunks() if ask.has_contexts else {}
    told = [f"Chunk {number} states all of {key}." for number in chunks if len(chunks) > 1]
    told += [f"The chunks state a part of {key}, but not all."] if ask.is_partial else []
    verdict = _question("choice", text, dict.fromkeys(_VERDICTS))
    return [verdict, *(_question("noul", one) for one in told)]


def _question(kind: str, text: str, options: Any = None) -> Question:
    asked = {"type": kind, "instructions": text}
    return asked if options is None else {**asked, "criteria": options}


class Band(NamedTuple):
    """Probabilities between which a verdict is unsure."""

    low: float
    high: float

    def content(self, ask: Ask, answers: Sequence[Answer]) -> Any:
        """Return the content of one item from the answers to its questions."""
        spec, first = ask.spec, answers[0]
        if ask.kind is Finding.GEVAL:
            correctness, completeness, consistency = (_mean(spec.levels, one) for one in answers)
            return GEval(correctness, completeness, consistency)
        if spec.levels:
            level = spec.levels[first.index(max(first))]
            value = level if spec.unit is Unit.TEMPLATE else {"value": level}
            return content_of(spec.element, value, View({}))
        probability, reason = first[0], f"probability {first[0]:.2f}"
        holds, sure = probability >= _HALF, not self.low < probability < self.high
        if ask.kind is Finding.STANCE:
            return holds
        if spec.unit is Unit.CHUNK:
            return ChunkRelevance(holds, 100 * probability, reason, sure)
        verdict = Verdict(holds, reason, sure, probability)
        is_support = ask.has_contexts and spec.unit is Unit.ITEM
        return _support(ask, verdict, answers) if is_support else verdict


def _support(ask: Ask, verdict: Verdict, answers: Sequence[Answer]) -> Support:
    """Return a verdict on a claim with its chunks. A single chunk has no separate question."""
    against, others = answers[0][1:], answers[1:]
    chunks = [int(number) for number in ask.chunks()]
    stating = {n for n, (p,) in zip(chunks, others, strict=False) if p >= _HALF}
    supporting = {*chunks} if len(chunks) == 1 else stating
    word = _VERDICTS[0] if verdict.holds else _VERDICTS[1 + against.index(max(against))]
    supports = verdict.holds and verdict.sure
    is_part = ask.is_partial and not supports and others[-1][0] >= _HALF
    numbers = range(1, len(ask.sample.contexts or ()) + 1)
    return Support(
        by_chunk=tuple(supports and number in supporting for number in numbers),
        together=supports and not supporting,
        reason=verdict.reason,
        verdict=word if verdict.sure else ClaimVerdict.UNSURE,
        probability=verdict.probability,
        partly=frozenset(chunks if is_part else ()),
    )


def _mean(levels: Sequence[float], answer: Answer) -> float:
    return sum(level * p for level, p in zip(levels, answer, strict=True)) / sum(answer)
