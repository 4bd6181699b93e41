"""Turns a finding into questions for a decision model, and the answers into its content. Pure."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Final, Literal, NamedTuple, TypeAlias

from rag_eval_hooks.findings import ChunkRelevance, ClaimVerdict, GEval, Rating, Support, Verdict
from rag_eval_hooks.prompts import elements
from rag_eval_hooks.prompts.ask import Ask

Answer: TypeAlias = tuple[float, ...]
"""Probability of a predicate, or of each option of a choice or score, in order."""
_VERDICTS: Final = (ClaimVerdict.SUPPORTED, ClaimVerdict.CONTRADICTED, ClaimVerdict.NOT_STATED)
_HALF: Final = 0.5


class Question(NamedTuple):
    """One question, containing no text of the sample."""

    kind: Literal["predicate", "choice", "score"]
    text: str
    options: tuple[str, ...] = ()


def questions(ask: Ask, key: str) -> list[Question]:
    """Return the questions about one item. The first decides the verdict."""
    element, text = ask.spec.element, ask.question(key)
    levels = tuple(f"{level:g}" for level in ask.spec.levels)
    if element is elements.GEvalElement:
        return [Question("score", f"Score {name} alone: {text}", levels) for name in _CRITERIA]
    if levels:
        return [Question("score", text, levels)]
    if element is elements.AgreementElement:
        return [Question("choice", text, _VERDICTS)]
    if element is not elements.SupportElement:
        return [Question("predicate", text)]
    chunks = ask.chunks()
    told = [f"Chunk {number} states all of {key}." for number in chunks if len(chunks) > 1]
    told += [f"The chunks state a part of {key}, but not all."] if ask.partial else []
    return [Question("choice", text, _VERDICTS), *(Question("predicate", one) for one in told)]


_CRITERIA: Final = tuple(elements.GEvalElement.model_fields)


class Band(NamedTuple):
    """Probabilities between which a verdict is unsure."""

    low: float
    high: float

    def content(self, ask: Ask, answers: Sequence[Answer]) -> Any:
        """Return the content of one item from the answers to its questions."""
        element, levels, first = ask.spec.element, ask.spec.levels, answers[0]
        if element is elements.GEvalElement:
            correctness, completeness, consistency = (_mean(levels, one) for one in answers)
            return GEval(correctness, completeness, consistency)
        if levels:
            level = levels[first.index(max(first))]
            if element is elements.DirectnessElement:
                return level
            return Rating(level) if element is elements.StepElement else int(level)
        if element is elements.SupportElement:
            return self._support(ask, answers)
        if element is elements.StanceElement:
            return first[0] >= _HALF
        verdict = Verdict(first[0] >= _HALF, _reason(first[0]), self._sure(first[0]), first[0])
        if element is elements.RelevanceElement:
            return ChunkRelevance(verdict.holds, 100 * first[0], verdict.reason, verdict.sure)
        return verdict

    def _support(self, ask: Ask, answers: Sequence[Answer]) -> Support:
        (probability, *against), *others = answers
        chunks = [int(number) for number in ask.chunks()]
        stating = {n for n, (p,) in zip(chunks, others, strict=False) if p >= _HALF}
        supporting = set(chunks) if len(chunks) == 1 else stating
        word = _VERDICTS[1 + against.index(max(against))]
        if not self._sure(probability):
            word = ClaimVerdict.UNSURE
        elif probability >= _HALF:
            word = ClaimVerdict.SUPPORTED
        holds = word is ClaimVerdict.SUPPORTED
        is_part = ask.partial and not holds and others[-1][0] >= _HALF
        numbers = range(1, len(ask.sample.contexts or ()) + 1)
        return Support(
            by_chunk=tuple(holds and number in supporting for number in numbers),
            together=holds and not supporting,
            reason=_reason(probability),
            verdict=word,
            probability=probability,
            partly=frozenset(chunks if is_part else ()),
        )

    def _sure(self, probability: float) -> bool:
        return not self.low < probability < self.high


def _mean(levels: Sequence[float], answer: Answer) -> float:
    return sum(level * p for level, p in zip(levels, answer, strict=True)) / sum(answer)


def _reason(probability: float) -> str:
    return f"probability {probability:.2f}"
