"""Verdicts on claims, chunks and entities: one verify task, its texts taken apart once."""

from __future__ import annotations

import asyncio
import math
from collections.abc import Awaitable, Callable, Iterable, Mapping, Sequence
from functools import cached_property
from typing import Any

from rag_eval_hooks.findings import ChunkRelevance, Finding, Support, Verdict
from rag_eval_hooks.judges.local.agreement import agrees
from rag_eval_hooks.judges.local.entailed import Entailment, with_entailment
from rag_eval_hooks.judges.local.readings import Reading, read
from rag_eval_hooks.judges.local.support import supports
from rag_eval_hooks.judges.local.task import Task
from rag_eval_hooks.judges.local.terms import terms
from rag_eval_hooks.judges.local.units import Chunks, Claim, Passage, Unit, as_written
from rag_eval_hooks.judges.local.windows import NO_VECTORS, Rules, Vectors, best_window
from rag_eval_hooks.text.key_terms import Searched

__all__ = ["VERIFY", "Verification"]

_PAUSE_EVERY = 8  # claims
_RELEVANCE = frozenset({Finding.RELEVANCE, Finding.RELEVANCE_TO_ANSWER})


class Verification:
    """One task, with everything that is computed once for it."""

    def __init__(self, task: Task, rules: Rules) -> None:
        self.task = task
        self.rules = rules
        self.vectors = NO_VECTORS
        self.entailment: Entailment | None = None
        self.passages = Chunks(Passage(chunk) for chunk in task.chunks)
        self._claims: dict[str, Claim] = {}
        self.question = frozenset(terms(task.question))

    @cached_property
    def answer_text(self) -> Passage:
        """The answer as a text that may state a claim of the reference."""
        return Passage(self.task.answer)

    @cached_property
    def reference_text(self) -> Passage:
        """The reference as a text that may state a claim of the answer."""
        return Passage(self.task.reference)

    def texts(self) -> Iterable[str]:
        """Yield the texts whose vectors the wanted findings need."""
        wanted = self.task.wanted
        passages: list[Passage] = []
        if wanted & _RELEVANCE:
            passages += self.passages
            yield self.task.question
        if Finding.ANSWER_AGREEMENT in wanted:
            yield from self.task.answer_claims
        if Finding.REFERENCE_AGREEMENT in wanted:
            yield from self.task.reference_claims
        if Finding.ANSWER_AGREEMENT in wanted:
            passages.append(self.reference_text)
        if Finding.REFERENCE_AGREEMENT in wanted:
            passages.append(self.answer_text)
        for passage in passages:
            yield from (unit.text for unit in passage.units)

    def claim(self, text: str) -> Claim:
        """Return the claim taken apart, once."""
        if text not in self._claims:
            self._claims[text] = Claim.of(text)
        return self._claims[text]

    async def supports(self, texts: Iterable[str]) -> tuple[Support, ...]:
        """Return the support of each claim by the chunks.

        Raises:
            JudgeError: The entailment model failed.
        """
        read_ones = []
        for at, text in enumerate(texts, 1):
            claim = self.claim(text)
            read_ones.append((claim, read(claim, self.passages, self.question, self.rules)))
            await _pause(at)
        readings: Sequence[Sequence[Reading]] = [found for _, found in read_ones]
        if self.entailment is not None:
            readings = await with_entailment(self.entailment, read_ones)
        return tuple(
            supports(claim, self.passages, self.question, self.rules, found)
            for (claim, _), found in zip(read_ones, readings, strict=True)
        )

    async def agreements(self, texts: Iterable[str], other: Passage) -> tuple[Verdict, ...]:
        """Return the agreement of each claim with the other text."""
        found = []
        for at, text in enumerate(texts, 1):
            claim = self.claim(text)
            found.append(agrees(claim, other, self.question, self.vectors, self.rules))
            await _pause(at)
        return tuple(found)

    def relevance(self, target: str) -> tuple[ChunkRelevance, ...]:
        """Return the usefulness of each chunk for the question and a target text.

        By overlap of terms as BM25 weighs it: ratings from 0 to 100 are the mean of how much of
        the question and of the target a chunk covers, and with vectors of that and the cosine of
        the question. A chunk is useful from `rules.useful` on.

        Args:
            target: The reference or the answer; possibly blank.
        """
        question = self.task.question
        asked = _weighted(terms(question), self.passages)
        wanted = _weighted([t for t in terms(target) if t not in asked], self.passages)
        texts = (Unit(question), Unit(target))
        return tuple(
            _rated(texts, asked, wanted, passage, self.vectors, self.rules)
            for passage in self.passages
        )

    def entities_found(self) -> tuple[Verdict, ...]:
        """Return whether some chunk holds each entity."""
        searched = [passage.searched for passage in self.passages]
        return tuple(_entity_found(entity, searched) for entity in self.task.entities)


async def _pause(done: int) -> None:
    """Let others run now and then: a long answer must hold up neither the loop nor the GIL."""
    if done % _PAUSE_EVERY == 0:
        await asyncio.sleep(0)


def _entity_found(entity: str, chunks: Sequence[Searched]) -> Verdict:
    where = [str(at) for at, chunk in enumerate(chunks, 1) if chunk.holds_entity(entity)]
    return Verdict(bool(where), f"in chunk {', '.join(where)}" if where else "in no chunk")


def _weighted(wanted: Sequence[str], passages: Sequence[Passage]) -> dict[str, float]:
    """Return weights of terms: those rare among the chunks, or absent, weigh more."""
    size = len(passages)
    weight = {}
    for term in wanted:
        holding = sum(term in passage.index for passage in passages)
        weight[term] = math.log(1 + (size + 1) / (holding + 0.5))
    return weight


def _rated(
    texts: tuple[Unit, Unit],
    asked: dict[str, float],
    wanted: dict[str, float],
    passage: Passage,
    vectors: Vectors,
    rules: Rules,
) -> ChunkRelevance:
    parts = [_overlap(asked, passage)] if asked else []
    if wanted:
        parts.append(_overlap(wanted, passage))
    rating = sum(parts) / len(parts) if parts else 0.0
    if (cosine := vectors.best(texts[0].text, passage)) is not None:
        rating = (rating + max(cosine, 0.0)) / 2
    held = {**asked, **wanted}.keys() & passage.index.keys()
    reason = f"holds: {as_written(held, *texts)}" if held else "holds no term of question or answer"
    return ChunkRelevance(rating >= rules.useful, min(100.0 * rating, 100.0), reason)


def _overlap(weight: dict[str, float], passage: Passage) -> float:
    """Return the covered share in [0, 1]: half by the chunk, half by its best window."""
    total = sum(weight.values())
    whole = sum(w for term, w in weight.items() if term in passage.index) / total
    return (whole + best_window(weight, passage).score) / 2


async def _at_once(finding: Any) -> Any:
    """Return a finding that needs no pause."""
    return finding


VERIFY: Mapping[Finding, Callable[[Verification], Awaitable[Any]]] = {
    Finding.ANSWER_SUPPORT: lambda v: v.supports(v.task.answer_claims),
    Finding.REFERENCE_SUPPORT: lambda v: v.supports(v.task.reference_claims),
    Finding.ANSWER_AGREEMENT: lambda v: v.agreements(v.task.answer_claims, v.reference_text),
    Finding.REFERENCE_AGREEMENT: lambda v: v.agreements(v.task.reference_claims, v.answer_text),
    Finding.RELEVANCE: lambda v: _at_once(v.relevance(v.task.reference)),
    Finding.RELEVANCE_TO_ANSWER: lambda v: _at_once(v.relevance(v.task.answer)),
    Finding.ENTITIES_FOUND: lambda v: _at_once(v.entities_found()),
}
"""All findings of a verify task."""
