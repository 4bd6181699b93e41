"""Asks judge and embedder for the findings of one sample: decompose, then verify and embed."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable
from typing import Any

from rag_eval_hooks.errors import JudgeError, JudgeTimeout
from rag_eval_hooks.findings import (
    BUILDS_ON,
    Decompose,
    Finding,
    Findings,
    Questions,
    Support,
    Verdict,
    Verify,
)
from rag_eval_hooks.incidents import Incidents
from rag_eval_hooks.judges.base import Embedder, Judge
from rag_eval_hooks.metrics.formulas import cosine
from rag_eval_hooks.sample import Sample
from rag_eval_hooks.score import Cause, NotScored

__all__ = ["Inquiry"]

_OF_ANSWER = frozenset({Finding.ANSWER_CLAIMS, Finding.QUESTIONS})
_OF_REFERENCE = frozenset({Finding.REFERENCE_CLAIMS, Finding.ENTITIES})
_DECOMPOSED = _OF_ANSWER | _OF_REFERENCE
_SIMILARITY = frozenset({Finding.QUESTIONS, Finding.QUESTION_SIMILARITY})
_NO_EMBEDDER = NotScored(Cause.MISSING_INPUT, "no embedder is configured")
_OUT_OF_TIME = NotScored(Cause.TIMEOUT, "the sample's time ran out")


class Inquiry:
    """The findings of one sample in the making.

    What is known without asking is never asked: a blank text makes no claims, and no chunk
    supports anything where there is none.

    Args:
        sample: What the findings are about.
        wanted: Findings to make, closed under `BUILDS_ON`.
        judge: Who decomposes and verifies.
        embedder: Who embeds, or None: then similarities are absent as `missing_input`.
        incidents: Where exceptions that are no `JudgeError` are counted.

    Attributes:
        findings: What is made so far; still readable when `run` was cut short.
    """

    def __init__(
        self,
        sample: Sample,
        wanted: frozenset[Finding],
        judge: Judge,
        embedder: Embedder | None,
        incidents: Incidents,
    ) -> None:
        self.findings = Findings()
        self._sample = sample
        self._wanted = wanted
        self._judge = judge
        self._embedder = embedder
        self._incidents = incidents
        self._chunks = tuple(context.text for context in sample.contexts or ())

    async def run(self, timeout: float) -> Findings:
        """Makes all wanted findings.

        Args:
            timeout: Seconds for all of them; what is not made by then is absent as `timeout`.
        """
        try:
            async with asyncio.timeout(timeout):
                await self._decompose()
                await asyncio.gather(self._verify(), self._embed())
        except TimeoutError:
            self._miss(self._open(self._wanted), _OUT_OF_TIME)
        return self.findings

    def _open(self, kinds: frozenset[Finding]) -> frozenset[Finding]:
        return frozenset(k for k in kinds & self._wanted if not self.findings.asked(k))

    def _miss(self, kinds: frozenset[Finding], why: NotScored) -> None:
        self.findings = self.findings.merged(Findings.absent(kinds, why))

    async def _decompose(self) -> None:
        if self._embedder is None:
            self._miss(self._open(_SIMILARITY), _NO_EMBEDDER)
        self._settle_blank_texts()
        open_parts = self._open(_DECOMPOSED)
        if open_parts:
            task = Decompose(
                wanted=open_parts,
                question=self._sample.question,
                answer=self._sample.answer if open_parts & _OF_ANSWER else None,
                reference=self._sample.reference if open_parts & _OF_REFERENCE else None,
            )
            await self._ask(self._judge.decompose(task), open_parts)

    def _settle_blank_texts(self) -> None:
        if not (self._sample.answer or "").strip():
            self.findings = self.findings.merged(
                Findings(answer_claims=(), questions=Questions(()), question_similarity=())
            )
        if not (self._sample.reference or "").strip():
            self.findings = self.findings.merged(Findings(reference_claims=(), entities=()))

    async def _verify(self) -> None:
        for kind in self._open(self._wanted) - _DECOMPOSED - _SIMILARITY:
            self._settle_without_asking(kind)
        open_parts = self._open(self._wanted) - _SIMILARITY
        if open_parts:
            await self._ask(self._judge.verify(self._verify_task(open_parts)), open_parts)

    def _settle_without_asking(self, kind: Finding) -> None:
        items: tuple[str, ...] | NotScored = ()
        if kind in BUILDS_ON:
            items = getattr(self.findings, BUILDS_ON[kind])
        if isinstance(items, NotScored):
            self._miss(frozenset({kind}), items)
            return
        about_chunks = kind not in (Finding.ANSWER_AGREEMENT, Finding.REFERENCE_AGREEMENT)
        if (kind in BUILDS_ON and not items) or (about_chunks and not self._chunks):
            known: dict[str, Any] = {kind.value: tuple(_unsupported(kind) for _ in items)}
            self.findings = self.findings.merged(Findings(**known))

    def _verify_task(self, wanted: frozenset[Finding]) -> Verify:
        about_answer = {Finding.ANSWER_SUPPORT, Finding.ANSWER_AGREEMENT} & wanted
        about_reference = {Finding.REFERENCE_SUPPORT, Finding.REFERENCE_AGREEMENT} & wanted
        found = self.findings
        return Verify(
            wanted=wanted,
            question=self._sample.question,
            chunks=self._chunks,
            answer=self._sample.answer,
            reference=self._sample.reference,
            answer_claims=_items(found.answer_claims) if about_answer else (),
            reference_claims=_items(found.reference_claims) if about_reference else (),
            entities=_items(found.entities) if Finding.ENTITIES_FOUND in wanted else (),
        )

    async def _embed(self) -> None:
        kinds = self._open(frozenset({Finding.QUESTION_SIMILARITY}))
        questions = self.findings.questions
        if not kinds or self._embedder is None:
            return
        if isinstance(questions, NotScored):
            self._miss(kinds, questions)
        elif questions.noncommittal or not questions.texts:
            self.findings = self.findings.merged(Findings(question_similarity=()))
        else:
            await self._ask(self._similarity(self._embedder, questions.texts), kinds)

    async def _similarity(self, embedder: Embedder, texts: tuple[str, ...]) -> Findings:
        question, *others = await embedder.embed([self._sample.question, *texts])
        cosines = [cosine(question, other) for other in others]
        known = tuple(value for value in cosines if value is not None)
        if len(known) != len(texts):
            raise JudgeError(f"{embedder.name} gave {len(known)} usable vectors of {len(texts)}")
        return Findings(question_similarity=known)

    async def _ask(self, reply: Awaitable[Findings], kinds: frozenset[Finding]) -> None:
        """Takes over a reply; whatever of `kinds` it does not hold is absent, with the cause."""
        why = NotScored(Cause.JUDGE_FAILED, "the judge left it out")
        try:
            findings = await reply
            # Read only now: the other branch may have added its findings meanwhile.
            self.findings = self.findings.merged(findings)
        except JudgeTimeout as error:
            why = NotScored(Cause.TIMEOUT, str(error))
        except JudgeError as error:
            why = NotScored(Cause.JUDGE_FAILED, str(error))
        except Exception as error:  # noqa: BLE001 - a judge can be the user's own code
            self._incidents.report(f"judge {self._judge.name}", error)
            why = NotScored(Cause.JUDGE_FAILED, f"the judge raised {type(error).__name__}")
        self._miss(self._open(kinds), why)


def _items(finding: tuple[str, ...] | NotScored) -> tuple[str, ...]:
    return () if isinstance(finding, NotScored) else finding


def _unsupported(kind: Finding) -> Support | Verdict:
    if kind in (Finding.ANSWER_SUPPORT, Finding.REFERENCE_SUPPORT):
        return Support((), reason="no context was retrieved")
    return Verdict(False, "no context was retrieved")
