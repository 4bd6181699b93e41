"""A call of `Judge.make` with its texts at hand."""

from __future__ import annotations

from dataclasses import dataclass

from rag_eval_hooks.findings import Finding, Findings
from rag_eval_hooks.judges import Judge
from rag_eval_hooks.prompts.ask import Ask
from rag_eval_hooks.sample import Context, Sample


@dataclass(frozen=True, slots=True, kw_only=True)
class JudgeTask:
    wanted: frozenset[Finding]
    question: str
    chunks: tuple[str, ...] = ()
    answer: str | None = None
    reference: str | None = None
    answer_claims: tuple[str, ...] = ()
    reference_claims: tuple[str, ...] = ()
    entities: tuple[str, ...] = ()

    @property
    def sample(self) -> Sample:
        return Sample(
            question=self.question,
            contexts=tuple(Context(text=chunk) for chunk in self.chunks),
            answer=self.answer,
            reference=self.reference,
        )

    @property
    def known(self) -> Findings:
        return Findings(
            answer_claims=self.answer_claims,
            reference_claims=self.reference_claims,
            entities=self.entities,
        )

    async def by(self, judge: Judge) -> Findings:
        return await judge.make(self.sample, self.wanted, self.known)

    def ask(self, kind: Finding) -> Ask:
        return Ask(kind, self.sample, self.known)
