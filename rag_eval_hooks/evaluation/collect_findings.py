"""Collection of the findings of one sample: decompose first, then everything else at once."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Sequence

from rag_eval_hooks.errors import JudgeError
from rag_eval_hooks.evaluation import trivial_findings as trivial
from rag_eval_hooks.evaluation.finding_sources import Source, Sources
from rag_eval_hooks.evaluation.plan import EvaluationPlan, closed
from rag_eval_hooks.evaluation.trivial_findings import items
from rag_eval_hooks.findings import (
    DECOMPOSED,
    EMBEDDED,
    GRADED,
    OF_ANSWER,
    OF_REFERENCE,
    RATED,
    TOKEN_SCORED,
    VERIFIED,
    Finding,
    Findings,
)
from rag_eval_hooks.incidents import Incidents, without_exit
from rag_eval_hooks.judges.calls.context import OUT_OF_TIME, in_call_context, is_in_time
from rag_eval_hooks.judges.calls.failures import cause_of
from rag_eval_hooks.judges.embeddings import embedded
from rag_eval_hooks.metrics import Metric
from rag_eval_hooks.metrics.formulas import cosine
from rag_eval_hooks.sample import Sample
from rag_eval_hooks.score import Cause, NotScored
from rag_eval_hooks.tasks import (
    Decompose,
    Grade,
    Rate,
    Verify,
)
from rag_eval_hooks.text.refusals import refusal
from rag_eval_hooks.usage import Usage

__all__ = ["FindingsCollector"]

_ABOUT_ANSWER = frozenset({Finding.ANSWER_SUPPORT, Finding.ANSWER_AGREEMENT})
_ABOUT_REFERENCE = frozenset({Finding.REFERENCE_SUPPORT, Finding.REFERENCE_AGREEMENT})

_NO_EMBEDDER = NotScored(Cause.MISSING_INPUT, "no embedder is configured; `embedder` sets one")
_NO_SCORER = NotScored(
    Cause.MISSING_INPUT, "no token scorer is configured; `token_scorer` sets one"
)
_OUT_OF_TIME = NotScored(Cause.TIMEOUT, OUT_OF_TIME)
_GRACE = 0.25
"""Seconds for a judge to hand over what it has after the sample's time."""


class FindingsCollector:
    """Findings of one sample in the making.

    What is known without a judge is never asked: a blank text makes no claims, and without chunks
    nothing is supported.
    """

    def __init__(
        self,
        sample: Sample,
        metrics: Sequence[Metric],
        plan: EvaluationPlan,
        sources: Sources,
        incidents: Incidents,
    ) -> None:
        self._findings = Findings()
        self._sample = sample
        self._metrics = metrics
        self._plan = plan
        self._sources = sources
        self._incidents = incidents
        self._wanted = plan.first(metrics, sample)
        self._chunks = tuple(context.text for context in sample.contexts or ())

    async def run(self, timeout: float) -> Findings:
        """Return all findings that the metrics read.

        Args:
            timeout: Seconds for all of them; findings not made by then are absent as `timeout`.
        """
        await self._sources.warm_up(self._wanted, self._incidents)
        when = asyncio.get_running_loop().time() + timeout
        try:
            # Our own judges keep the deadline and report what they have and what they spent; any
            # other is cut off.
            with in_call_context(deadline=when):
                async with asyncio.timeout_at(when + _GRACE):
                    await self._run()
        except TimeoutError:
            self._miss(self._open(self._wanted), _OUT_OF_TIME)
        return self._findings

    async def _run(self) -> None:
        self._settle(trivial.from_texts(self._sample))
        self._miss_without_source()
        await self._decompose()
        self._wanted |= self._plan.all(self._metrics, self._sample, self._findings)
        self._miss_without_source()
        await self._decompose()
        if not is_in_time():
            raise TimeoutError
        await asyncio.gather(
            # First, as its replies are the shortest: calls about the same contexts wait for one.
            self._grade(),
            self._verify(),
            self._rate(),
            self._embed_questions(),
            self._embed_texts(),
            self._score_tokens(),
        )

    def _miss_without_source(self) -> None:
        if self._sources.embedder is None:
            self._miss(self._open(closed(EMBEDDED)), _NO_EMBEDDER)
        if self._sources.scorer is None:
            self._miss(self._open(TOKEN_SCORED), _NO_SCORER)

    def _open(self, kinds: frozenset[Finding]) -> frozenset[Finding]:
        return frozenset(k for k in kinds & self._wanted if not self._findings.asked(k))

    def _settle(self, findings: Findings) -> None:
        self._findings = self._findings.merged(findings)

    def _miss(self, kinds: frozenset[Finding], why: NotScored) -> None:
        if kinds:
            self._settle(Findings.absent(kinds, why))

    async def _decompose(self) -> None:
        kinds = self._open(DECOMPOSED)
        if kinds:
            task = Decompose(
                wanted=kinds,
                question=self._sample.question,
                answer=self._sample.answer if kinds & OF_ANSWER else None,
                reference=self._sample.reference if kinds & OF_REFERENCE else None,
            )
            await self._ask(self._sources.judge.decompose(task), kinds)

    async def _verify(self) -> None:
        for kind in self._open(VERIFIED):
            self._settle(trivial.from_items(kind, self._findings, self._chunks))
        kinds = self._open(VERIFIED)
        if kinds:
            findings, answer = self._findings, self._sample.answer
            if kinds == {Finding.RELEVANCE} and refusal(answer or "") is not None:
                answer = None  # what is useful for a refusal is not useful for the question
            task = Verify(
                wanted=kinds,
                question=self._sample.question,
                chunks=self._chunks,
                answer=answer,
                reference=self._sample.reference,
                answer_claims=items(findings.answer_claims) if kinds & _ABOUT_ANSWER else (),
                reference_claims=(
                    items(findings.reference_claims) if kinds & _ABOUT_REFERENCE else ()
                ),
                entities=items(findings.entities) if Finding.ENTITIES_FOUND in kinds else (),
            )
            await self._ask(self._sources.judge.verify(task), kinds)

    async def _rate(self) -> None:
        kinds = self._open(RATED)
        if kinds:
            task = Rate(
                wanted=kinds,
                question=self._sample.question,
                answer=self._sample.answer or "",
                reference=self._sample.reference,
            )
            await self._ask(self._sources.judge.rate(task), kinds)

    async def _grade(self) -> None:
        for kind in self._open(GRADED):
            self._settle(trivial.from_items(kind, self._findings, self._chunks))
        kinds = self._open(GRADED)
        if kinds:
            task = Grade(
                wanted=kinds,
                question=self._sample.question,
                chunks=self._chunks,
                answer=self._sample.answer,
                reference=self._sample.reference,
            )
            await self._ask(self._sources.judge.grade(task), kinds)

    async def _embed_questions(self) -> None:
        kinds = self._open(frozenset({Finding.QUESTION_SIMILARITY}))
        questions = self._findings.questions
        if not kinds:
            return
        if isinstance(questions, NotScored):
            self._miss(kinds, questions)
        elif not questions.texts:
            self._settle(Findings(question_similarity=()))
        else:
            texts = questions.texts

            async def similarity() -> Findings:
                values, used = await self._cosines(texts)
                usage = {Finding.QUESTION_SIMILARITY: used}
                return Findings(question_similarity=values, usage=usage)

            await self._ask(similarity(), kinds, self._sources.embedder)

    async def _embed_texts(self) -> None:
        kinds = self._open(frozenset({Finding.ANSWER_SIMILARITY}))
        if kinds:

            async def similarity() -> Findings:
                texts = (self._sample.reference or "",)
                (value,), used = await self._cosines(texts, of=self._sample.answer)
                usage = {Finding.ANSWER_SIMILARITY: used}
                return Findings(answer_similarity=value, usage=usage)

            await self._ask(similarity(), kinds, self._sources.embedder)

    async def _cosines(
        self, texts: tuple[str, ...], of: str | None = None
    ) -> tuple[tuple[float, ...], Usage]:
        """Return the cosine of each text and the question, or another text, and the usage."""
        embedder = self._sources.embedder
        assert embedder is not None
        subject = self._sample.question if of is None else of
        (first, *others), used = await embedded(embedder, [subject, *texts])
        cosines = [cosine(first, other) for other in others]
        usable = tuple(value for value in cosines if value is not None)
        if len(usable) != len(texts):
            raise JudgeError(f"{embedder.name} gave {len(usable)} usable vectors of {len(texts)}")
        return usable, used

    async def _score_tokens(self) -> None:
        kinds, scorer = self._open(TOKEN_SCORED), self._sources.scorer
        if kinds and scorer is not None:
            answer, reference = self._sample.answer or "", self._sample.reference or ""

            async def likeness() -> Findings:
                return Findings(token_score=await scorer.score(answer, reference))

            await self._ask(likeness(), kinds, scorer)

    async def _ask(
        self, reply: Awaitable[Findings], kinds: frozenset[Finding], source: Source | None = None
    ) -> None:
        """Add a reply to the findings; those of `kinds` that it lacks are absent with the cause."""
        source = source or self._sources.judge
        why = NotScored(Cause.JUDGE_FAILED, "the judge left it out")
        try:
            findings = await without_exit(reply)
            # Only now: another branch may have added its findings meanwhile.
            self._settle(findings)
            for kind, detail in trivial.misfits(self._findings, self._chunks).items():
                self._miss(frozenset({kind}), NotScored(Cause.JUDGE_FAILED, detail))
        except JudgeError as error:
            why = NotScored(cause_of(error), str(error))
        except Exception as error:  # noqa: BLE001 - a judge can be the user's own code
            self._incidents.report(f"judge {source.name}", error)
            why = NotScored(Cause.JUDGE_FAILED, f"the judge raised {type(error).__name__}")
        self._miss(self._open(kinds), why)
        self._report(kinds, source)

    def _report(self, kinds: frozenset[Finding], source: Source) -> None:
        """Count findings that the source failed to make; the first failure is logged."""
        made = [getattr(self._findings, kind) for kind in sorted(kinds)]
        failed = [one for one in made if isinstance(one, NotScored) and one.cause.is_failure]
        if failed:
            host = getattr(source, "host", None)
            where = f" at {host}" if host else ""
            what = f"{failed[0].cause.value}: {failed[0].detail}"
            self._incidents.count(f"judge {source.name}{where} failed", detail=what)
