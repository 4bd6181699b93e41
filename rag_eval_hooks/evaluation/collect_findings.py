"""Collection of the findings of one sample: items first, then verdicts about them."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Awaitable, Sequence
from contextlib import AbstractAsyncContextManager, nullcontext

from rag_eval_hooks.errors import BudgetError, JudgeError
from rag_eval_hooks.evaluation import trivial_findings as trivial
from rag_eval_hooks.evaluation.finding_sources import Source, Sources
from rag_eval_hooks.findings import EMBEDDED, TOKEN_SCORED, Finding, Findings
from rag_eval_hooks.incidents import Incidents, without_exit
from rag_eval_hooks.judges.base import Embedder
from rag_eval_hooks.judges.calls.context import (
    OUT_OF_TIME,
    call_context,
    in_call_context,
    is_in_time,
)
from rag_eval_hooks.judges.calls.failures import cause_of
from rag_eval_hooks.judges.embeddings import embedded
from rag_eval_hooks.metrics import Metric
from rag_eval_hooks.metrics.formulas import cosine
from rag_eval_hooks.prompts import ABOUT, SPECS, with_bases
from rag_eval_hooks.sample import Sample
from rag_eval_hooks.score import Cause, NotScored
from rag_eval_hooks.usage import Usage, tokens

__all__ = ["FindingsCollector", "findings_read"]

_logger = logging.getLogger("rag_eval_hooks")

_NO_EMBEDDER = NotScored(Cause.MISSING_INPUT, "no embedder is configured; `embedder` sets one")
_NO_SCORER = NotScored(
    Cause.MISSING_INPUT, "no token scorer is configured; `token_scorer` sets one"
)
_OUT_OF_TIME = NotScored(Cause.TIMEOUT, OUT_OF_TIME)
_GRACE = 0.25
"""Seconds for a judge to hand over what it has after the sample's time."""


def findings_read(
    metric: Metric, sample: Sample, known: Findings, incidents: Incidents
) -> frozenset[Finding]:
    """Return the findings that a metric reads of a sample, with those that they build on."""
    try:
        return with_bases(metric.findings_for(sample, known))
    except Exception as error:  # noqa: BLE001 - the metric's edge
        incidents.report(f"metric {metric.id}", error)
        return with_bases(metric.findings)


class FindingsCollector:
    """Findings of one sample in the making, in two rounds.

    The first round asks for claims, entities and all that needs no other finding, the second for
    verdicts about these. What is known without a judge is never asked: a blank text makes no
    claims, and without chunks nothing is supported.
    """

    def __init__(
        self, sample: Sample, metrics: Sequence[Metric], sources: Sources, incidents: Incidents
    ) -> None:
        self._findings = Findings()
        self._sample = sample
        self._metrics = metrics
        self._sources = sources
        self._incidents = incidents
        self._chunks = tuple(context.text for context in sample.contexts or ())

    async def run(self, timeout: float) -> Findings:
        """Return all findings that the metrics read.

        Args:
            timeout: Seconds for all of them; findings not made by then are absent as `timeout`.
        """
        self._settle_known()
        await self._sources.warm_up(self._open(), self._incidents)
        when = asyncio.get_running_loop().time() + timeout
        try:
            # Our own judges keep the deadline and report what they have and what they spent; any
            # other is cut off.
            with in_call_context(deadline=when):
                async with asyncio.timeout_at(when + _GRACE), self._within_budget():
                    await self._round(frozenset(kind for kind in self._open() if kind not in ABOUT))
                    if not is_in_time():
                        raise TimeoutError
                    await self._round(self._open())
        except TimeoutError:
            self._miss(self._open(), _OUT_OF_TIME)
        except BudgetError as error:
            self._miss(self._open(), NotScored(cause_of(error), str(error)))
        return self._findings

    def _within_budget(self) -> AbstractAsyncContextManager[None]:
        """Reserve the calls of the whole sample: half of its findings would be spent in vain."""
        budget = call_context().budget
        expected = getattr(self._sources.judge, "expected_calls", None)
        if budget is None or expected is None:
            return nullcontext()
        sample = self._sample
        texts = (sample.question, sample.answer or "", sample.reference or "", *self._chunks)
        return budget.sample(expected(self._open()), float(sum(map(tokens, texts))))

    def _settle_known(self) -> None:
        self._settle(trivial.from_texts(self._sample))
        if self._sources.embedder is None:
            self._miss(self._unknown(with_bases(EMBEDDED)), _NO_EMBEDDER)
        if self._sources.scorer is None:
            self._miss(self._unknown(TOKEN_SCORED), _NO_SCORER)

    def _open(self) -> frozenset[Finding]:
        """Return the findings that the metrics read and that are not known yet."""
        kinds = (
            findings_read(metric, self._sample, self._findings, self._incidents)
            for metric in self._metrics
        )
        return self._unknown(frozenset[Finding]().union(*kinds))

    def _unknown(self, kinds: frozenset[Finding]) -> frozenset[Finding]:
        return frozenset(kind for kind in kinds if not self._findings.asked(kind))

    def _settle(self, findings: Findings) -> None:
        self._findings = self._findings.merged(findings)

    def _miss(self, kinds: frozenset[Finding], why: NotScored) -> None:
        if kinds:
            self._settle(Findings.absent(kinds, why))

    async def _round(self, kinds: frozenset[Finding]) -> None:
        for kind in kinds & SPECS.keys():
            self._settle(trivial.from_items(kind, self._findings, self._chunks))
        judged = self._unknown(kinds & SPECS.keys())
        await asyncio.gather(
            self._judge(judged),
            self._embed_questions(kinds),
            self._embed_texts(kinds),
            self._score_tokens(kinds),
        )

    async def _judge(self, kinds: frozenset[Finding]) -> None:
        if kinds:
            judge = self._sources.judge
            await self._ask(judge.make(self._sample, kinds, self._findings), kinds, judge)

    async def _embed_questions(self, kinds: frozenset[Finding]) -> None:
        kinds = self._unknown(kinds & {Finding.QUESTION_SIMILARITY})
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

            await self._ask(similarity(), kinds, self._embedder)

    async def _embed_texts(self, kinds: frozenset[Finding]) -> None:
        kinds = self._unknown(kinds & {Finding.ANSWER_SIMILARITY})
        if kinds:

            async def similarity() -> Findings:
                texts = (self._sample.reference or "",)
                (value,), used = await self._cosines(texts, of=self._sample.answer)
                usage = {Finding.ANSWER_SIMILARITY: used}
                return Findings(answer_similarity=value, usage=usage)

            await self._ask(similarity(), kinds, self._embedder)

    @property
    def _embedder(self) -> Embedder:
        assert self._sources.embedder is not None
        return self._sources.embedder

    async def _cosines(
        self, texts: tuple[str, ...], of: str | None = None
    ) -> tuple[tuple[float, ...], Usage]:
        """Return the cosine of each text and the question, or another text, and the usage."""
        embedder = self._embedder
        subject = self._sample.question if of is None else of
        (first, *others), used = await embedded(embedder, [subject, *texts])
        cosines = [cosine(first, other) for other in others]
        usable = tuple(value for value in cosines if value is not None)
        if len(usable) != len(texts):
            raise JudgeError(f"{embedder.name} gave {len(usable)} usable vectors of {len(texts)}")
        return usable, used

    async def _score_tokens(self, kinds: frozenset[Finding]) -> None:
        kinds, scorer = self._unknown(kinds & TOKEN_SCORED), self._sources.scorer
        if kinds and scorer is not None:
            answer, reference = self._sample.answer or "", self._sample.reference or ""

            async def likeness() -> Findings:
                return Findings(token_score=await scorer.score(answer, reference))

            await self._ask(likeness(), kinds, scorer)

    async def _ask(
        self, reply: Awaitable[Findings], kinds: frozenset[Finding], source: Source
    ) -> None:
        """Add a reply to the findings; those of `kinds` that it lacks are absent with the cause."""
        why = NotScored(Cause.JUDGE_FAILED, "the judge left it out")
        try:
            findings = await without_exit(reply)
            # Only now: another branch may have added its findings meanwhile.
            self._settle(findings)
            for kind, detail in trivial.misfits(self._findings, self._chunks).items():
                self._miss(frozenset({kind}), NotScored(Cause.JUDGE_FAILED, detail))
        except JudgeError as error:
            why = NotScored(cause_of(error), str(error))
        except Exception as error:
            self._incidents.report(f"judge {source.name}", error)
            # With the traceback, whose message and lines may be the user's own and hold content.
            _logger.debug("judge %s raised", source.name, exc_info=True)
            why = NotScored(Cause.JUDGE_FAILED, f"the judge raised {type(error).__name__}")
        self._miss(self._unknown(kinds), why)
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
