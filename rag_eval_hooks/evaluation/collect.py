"""Collects the findings of one sample: first items such as claims, then verdicts on the items."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Sequence
from contextlib import AbstractAsyncContextManager, nullcontext, suppress
from dataclasses import dataclass
from typing import Any, Final, TypeAlias

from rag_eval_hooks.calls import tokens
from rag_eval_hooks.errors import BudgetError, JudgeError
from rag_eval_hooks.findings import (
    EMBEDDED,
    TOKEN_SCORED,
    Finding,
    Findings,
    Questions,
    Support,
    TokenScore,
    Verdict,
    made,
)
from rag_eval_hooks.incidents import Incidents, in_words, without_exit
from rag_eval_hooks.judges import (
    Embedder,
    Judge,
    TokenScorer,
    embedded,
    expected_calls,
    findings_by,
)
from rag_eval_hooks.judges.failures import absence_of, report_failure
from rag_eval_hooks.judges.model_calls import OUT_OF_TIME, call_context, in_call_context, is_in_time
from rag_eval_hooks.metrics import Metric
from rag_eval_hooks.metrics.formulas import cosine
from rag_eval_hooks.prompts.specs import ABOUT, SPECS, Unit, with_bases
from rag_eval_hooks.sample import Field, Sample
from rag_eval_hooks.score import Cause, NotScored

_logger = logging.getLogger("rag_eval_hooks")
Source: TypeAlias = Judge | Embedder | TokenScorer
_WITHOUT_EMBEDDER: Final[dict[str, NotScored]] = dict.fromkeys(
    with_bases(EMBEDDED),
    NotScored(Cause.MISSING_INPUT, "no embedder is configured; set embedder=..."),
)
_WITHOUT_SCORER: Final[dict[str, NotScored]] = dict.fromkeys(
    TOKEN_SCORED,
    NotScored(Cause.MISSING_INPUT, "no token scorer is configured; pass token_scorer=BertScorer()"),
)
_OUT_OF_TIME: Final = NotScored(Cause.TIMEOUT, OUT_OF_TIME)
_LEFT_OUT: Final = NotScored(Cause.JUDGE_FAILED, "the judge returned no value for a finding")
_LONGEST_LOAD: Final = 600.0  # seconds; loading a model does not count toward the sample's timeout
_LATER_ROUNDS: Final = 2
_GRACE: Final = 0.25  # seconds after the timeout in which a judge may still return findings
_NOTHING: Final = "no context was retrieved"
_ON_NOTHING: Final = {
    Finding.ANSWER_SUPPORT: Support((), reason=_NOTHING),
    Finding.REFERENCE_SUPPORT: Support((), reason=_NOTHING),
    Finding.ENTITIES_FOUND: Verdict(False, _NOTHING),
}


def _from_texts(sample: Sample) -> dict[str, Any]:
    known: dict[str, Any] = {}
    answer, reference = (sample.answer or "").strip(), (sample.reference or "").strip()
    if not answer:
        known |= {"answer_claims": (), "questions": Questions(()), "question_similarity": ()}
    if not reference:
        known |= {"reference_claims": (), "entities": ()}
    if not (answer and reference):
        known |= {"answer_similarity": 0.0, "token_score": TokenScore(0.0, 0.0, 0.0)}
    return known


def _from_items(kind: Finding, findings: Findings, chunks: Sequence[str]) -> Findings:
    items: tuple[str, ...] = ()
    if kind in ABOUT:
        base = getattr(findings, ABOUT[kind])
        if isinstance(base, NotScored):
            return Findings.of(kind, base)
        items = base.texts if isinstance(base, Questions) else base
        if not items:
            return Findings.of(kind, ())
    if chunks or kind not in SPECS or Field.CONTEXTS not in SPECS[kind].shows:
        return Findings()  # the finding needs a call
    if SPECS[kind].unit is Unit.TEMPLATE:
        # Without contexts, both ratings are the lowest.
        return Findings.of(kind, (0, 0))
    return Findings.of(kind, (_ON_NOTHING.get(kind),) * len(items))


def _wrong_counts(findings: Findings, chunks: Sequence[str]) -> Findings:
    absent: dict[str, Any] = {}
    for kind, spec in SPECS.items():
        verdicts = getattr(findings, kind)
        items = chunks if spec.about is None else getattr(findings, spec.about)
        if spec.unit not in (Unit.CHUNK, Unit.ITEM) or isinstance(verdicts, NotScored):
            continue
        if isinstance(items, NotScored):
            continue
        flags = [one.by_chunk for one in verdicts if isinstance(one, Support)]
        for given, expected in ((verdicts, items), *((one, chunks) for one in flags)):
            if len(given) != len(expected):
                detail = f"the judge gave {len(given)} verdicts for {len(expected)} items"
                absent[kind.value] = NotScored(Cause.JUDGE_FAILED, detail)
    return Findings(**absent)


@dataclass(frozen=True, slots=True, kw_only=True)
class Sources:
    judge: Judge
    embedder: Embedder | None = None
    scorer: TokenScorer | None = None

    def of(self, kinds: frozenset[Finding]) -> list[tuple[Source, frozenset[Finding]]]:
        makers: list[tuple[Source | None, frozenset[Finding]]] = [
            (self.judge, kinds & SPECS.keys()),
            (self.embedder, kinds & EMBEDDED),
            (self.scorer, kinds & TOKEN_SCORED),
        ]
        return [(source, own) for source, own in makers if source is not None and own]

    async def warm_up(self, wanted: frozenset[Finding], incidents: Incidents) -> None:
        for source, _ in self.of(wanted):
            if (load := getattr(source, "warm_up", None)) is not None:
                try:
                    with suppress(JudgeError, TimeoutError):  # the next judge call reports these
                        await without_exit(asyncio.wait_for(load(), _LONGEST_LOAD))
                except Exception as error:  # noqa: BLE001 - a judge can be the user's own code
                    incidents.report(f"judge {source.name}", error)


def findings_read(
    metric: Metric, sample: Sample, known: Findings, incidents: Incidents
) -> frozenset[Finding]:
    try:
        return with_bases(metric.findings_for(sample, known))
    except Exception as error:  # noqa: BLE001 - an embedder may raise anything
        incidents.report(f"metric {metric.id}", error)
        return with_bases(metric.findings)


class FindingsCollector:
    def __init__(
        self,
        sample: Sample,
        metrics: Sequence[Metric],
        sources: Sources,
        incidents: Incidents,
        known: Findings | None = None,
    ) -> None:
        absent: dict[str, Any] = {}
        absent |= _WITHOUT_EMBEDDER if sources.embedder is None else {}
        absent |= _WITHOUT_SCORER if sources.scorer is None else {}
        absent |= _from_texts(sample) if known is None else {}
        self._findings = Findings(**absent).merged(known or Findings())
        self._sample = sample
        self._metrics = metrics
        self._sources = sources
        self._incidents = incidents
        self._chunks = tuple(context.text for context in sample.contexts or ())

    async def run(self, timeout: float) -> Findings:
        if not (opened := self._open()):
            return self._findings
        await self._sources.warm_up(opened, self._incidents)
        when = asyncio.get_running_loop().time() + timeout
        try:
            # Our own judges return findings and usage at the deadline. Cancel other judges.
            with in_call_context(deadline=when):
                async with asyncio.timeout_at(when + _GRACE), self._within_budget():
                    first = opened - ABOUT.keys()
                    if getattr(self._sources.judge, "one_call", False):
                        first -= SPECS.keys() - set(ABOUT.values())
                    await self._round(first)
                    for _ in range(_LATER_ROUNDS):
                        if not (opened := self._open()):
                            break
                        if not is_in_time():
                            raise TimeoutError
                        await self._round(opened)
        except TimeoutError:
            self._miss(self._open(), _OUT_OF_TIME)
        except (BudgetError, RuntimeError) as error:  # RuntimeError: no thread can start.
            self._miss(self._open(), absence_of(error))
        return self._findings

    def _within_budget(self) -> AbstractAsyncContextManager[None]:
        budget = call_context().budget
        if budget is None:
            return nullcontext()
        calls = expected_calls(self._sources.judge, self._open())
        sample = self._sample
        texts = (sample.question, sample.answer or "", sample.reference or "", *self._chunks)
        return budget.sample(calls, float(sum(map(tokens, texts))))

    def _open(self) -> frozenset[Finding]:
        known = self._sample, self._findings, self._incidents
        kinds = (findings_read(metric, *known) for metric in self._metrics)
        return self._unknown(frozenset[Finding]().union(*kinds))

    def _unknown(self, kinds: frozenset[Finding]) -> frozenset[Finding]:
        return frozenset(kind for kind in kinds if not self._findings.asked(kind))

    def _miss(self, kinds: frozenset[Finding], why: NotScored) -> None:
        self._findings = self._findings.merged(Findings.absent(self._unknown(kinds), why))

    async def _round(self, kinds: frozenset[Finding]) -> None:
        for kind in kinds:
            self._findings = self._findings.merged(_from_items(kind, self._findings, self._chunks))
        if asked := self._sources.of(self._unknown(kinds)):
            await asyncio.gather(*(self._ask(source, own) for source, own in asked))

    async def _make(self, kinds: frozenset[Finding]) -> Findings:
        embedder, scorer = self._sources.embedder, self._sources.scorer
        pair = self._sample.answer or "", self._sample.reference or ""
        if embedder is not None and kinds <= EMBEDDED:
            # No round requests both embedded findings, because only one of them needs questions.
            (kind,) = kinds
            return await self._similarity(embedder, kind, *pair)
        if scorer is not None and kinds <= TOKEN_SCORED:
            return Findings(token_score=await scorer.score(*pair))
        return await findings_by(self._sources.judge, self._sample, kinds, self._findings)

    async def _similarity(self, embedder: Embedder, kind: Finding, *pair: str) -> Findings:
        subject, *texts = pair
        if kind is Finding.QUESTION_SIMILARITY:
            subject, texts = self._sample.question, [*made(self._findings.questions).texts]
        (first, *others), used = await embedded(embedder, [subject, *texts])
        cosines = tuple(one for other in others if (one := cosine(first, other)) is not None)
        if len(cosines) != len(texts):
            told = f"{embedder.name} gave {len(cosines)} usable vectors for {len(texts)} texts"
            raise JudgeError(told)
        content = cosines if kind is Finding.QUESTION_SIMILARITY else cosines[0]
        return Findings.of(kind, content, usage={kind: used})

    async def _ask(self, source: Source, kinds: frozenset[Finding]) -> None:
        why = _LEFT_OUT
        try:
            findings = await without_exit(self._make(kinds))
            # Merge after the call, because another source may have added findings meanwhile.
            self._findings = self._findings.merged(findings)
            self._findings = self._findings.merged(_wrong_counts(self._findings, self._chunks))
        except JudgeError as error:
            why = absence_of(error)
        except Exception as error:
            self._incidents.report(f"judge {source.name}", error)
            # Log at DEBUG, because the traceback may contain content.
            _logger.debug("judge %s raised", source.name, exc_info=True)
            why = NotScored(Cause.JUDGE_FAILED, in_words("the judge", error))
        self._miss(kinds, why)
        report_failure(self._incidents, source, kinds, self._findings)
