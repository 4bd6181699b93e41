"""One verify task: what is computed once, and how each finding is made from it."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Iterable, Sequence
from typing import Any

from rag_eval_hooks.findings import ChunkRelevance, Finding, Support, Verdict
from rag_eval_hooks.judges.local.agreement import agrees
from rag_eval_hooks.judges.local.relevance import relevance
from rag_eval_hooks.judges.local.rules import Rules
from rag_eval_hooks.judges.local.support import supports
from rag_eval_hooks.judges.local.units import Claim, Passage, terms
from rag_eval_hooks.judges.local.vectors import NO_VECTORS
from rag_eval_hooks.tasks import Verify
from rag_eval_hooks.text.keywords import Searched

__all__ = ["MAKE", "Work"]

_BREATH = 8  # claims
_RELEVANCE = frozenset({Finding.RELEVANCE, Finding.RELEVANCE_TO_ANSWER})


class Work:
    """One task with everything that is computed once for it."""

    def __init__(self, task: Verify, rules: Rules) -> None:
        self.task = task
        self.rules = rules
        self.vectors = NO_VECTORS
        self.passages = [Passage(chunk) for chunk in task.chunks]
        self.answer = Passage(task.answer or "")
        self.reference = Passage(task.reference or "")
        self._claims: dict[str, Claim] = {}
        self.question = frozenset(terms(task.question))

    def texts(self) -> Iterable[str]:
        """What an embedder has to see for the wanted findings."""
        wanted = self.task.wanted
        passages: list[Passage] = []
        if wanted & (_RELEVANCE | {Finding.ANSWER_SUPPORT, Finding.REFERENCE_SUPPORT}):
            passages += self.passages
        if wanted & _RELEVANCE:
            yield self.task.question
        if wanted & {Finding.ANSWER_SUPPORT, Finding.ANSWER_AGREEMENT}:
            yield from self.task.answer_claims
        if wanted & {Finding.REFERENCE_SUPPORT, Finding.REFERENCE_AGREEMENT}:
            yield from self.task.reference_claims
        if Finding.ANSWER_AGREEMENT in wanted:
            passages.append(self.reference)
        if Finding.REFERENCE_AGREEMENT in wanted:
            passages.append(self.answer)
        for passage in passages:
            yield from (unit.text for unit in passage.units)

    def claim(self, text: str) -> Claim:
        """The claim taken apart, once."""
        if text not in self._claims:
            self._claims[text] = Claim.of(text)
        return self._claims[text]

    async def supports(self, texts: Iterable[str]) -> tuple[Support, ...]:
        """Support of each claim by the chunks."""
        found = []
        for at, text in enumerate(texts, 1):
            claim = self.claim(text)
            found.append(supports(claim, self.passages, self.question, self.vectors, self.rules))
            await _breathe(at)
        return tuple(found)

    async def agreements(self, texts: Iterable[str], other: Passage) -> tuple[Verdict, ...]:
        """Agreement of each claim with the other text."""
        found = []
        for at, text in enumerate(texts, 1):
            claim = self.claim(text)
            found.append(agrees(claim, other, self.question, self.vectors, self.rules))
            await _breathe(at)
        return tuple(found)

    async def answer_support(self) -> tuple[Support, ...]:
        """Which chunks support each answer claim."""
        return await self.supports(self.task.answer_claims)

    async def reference_support(self) -> tuple[Support, ...]:
        """Which chunks support each reference claim."""
        return await self.supports(self.task.reference_claims)

    async def answer_agreement(self) -> tuple[Verdict, ...]:
        """Does the reference support each answer claim."""
        return await self.agreements(self.task.answer_claims, self.reference)

    async def reference_agreement(self) -> tuple[Verdict, ...]:
        """Does the answer state each reference claim."""
        return await self.agreements(self.task.reference_claims, self.answer)

    async def relevance(self) -> tuple[ChunkRelevance, ...]:
        """How useful each chunk is."""
        reference = (self.task.reference or "").strip()
        return self._relevance(reference or self.task.answer or "")

    async def relevance_to_answer(self) -> tuple[ChunkRelevance, ...]:
        """How useful each chunk is, by the answer even where there is a reference."""
        return self._relevance(self.task.answer or "")

    def _relevance(self, target: str) -> tuple[ChunkRelevance, ...]:
        return relevance(self.task.question, target, self.passages, self.vectors, self.rules)

    async def entities_found(self) -> tuple[Verdict, ...]:
        """Which entities some chunk holds."""
        searched = [passage.searched for passage in self.passages]
        return tuple(_entity_found(entity, searched) for entity in self.task.entities)


async def _breathe(done: int) -> None:
    """Lets others run now and then: a long answer must not hold up the loop, nor the GIL."""
    if done % _BREATH == 0:
        await asyncio.sleep(0)


def _entity_found(entity: str, chunks: Sequence[Searched]) -> Verdict:
    where = [str(at) for at, chunk in enumerate(chunks, 1) if chunk.holds_entity(entity)]
    return Verdict(bool(where), f"in chunk {', '.join(where)}" if where else "in no chunk")


MAKE: dict[Finding, Callable[[Work], Awaitable[Any]]] = {
    Finding.ANSWER_SUPPORT: Work.answer_support,
    Finding.REFERENCE_SUPPORT: Work.reference_support,
    Finding.ANSWER_AGREEMENT: Work.answer_agreement,
    Finding.REFERENCE_AGREEMENT: Work.reference_agreement,
    Finding.RELEVANCE: Work.relevance,
    Finding.RELEVANCE_TO_ANSWER: Work.relevance_to_answer,
    Finding.ENTITIES_FOUND: Work.entities_found,
}
