"""Evaluates one sample: asks the judge for findings, then computes metrics from the findings."""

from __future__ import annotations

import asyncio
from collections import Counter
from collections.abc import Container, Coroutine, Mapping, Sequence
from dataclasses import dataclass, field, replace
from itertools import chain
from typing import Any, Final

from rag_eval_hooks._version import __version__
from rag_eval_hooks.calls import UNUSED
from rag_eval_hooks.evaluation.collect import FindingsCollector, Sources, findings_read
from rag_eval_hooks.evaluation.own_metrics import (
    RETURNED_NOTHING,
    Criterion,
    ResultError,
    outcome_of,
)
from rag_eval_hooks.findings import (
    CUT,
    EMBEDDED,
    ClaimVerdict,
    Finding,
    Findings,
    Maker,
    Support,
    Verdict,
)
from rag_eval_hooks.incidents import Incidents, in_words
from rag_eval_hooks.metrics import AskedMetric, Metric
from rag_eval_hooks.metrics.metric import missing_inputs
from rag_eval_hooks.prompts.specs import ABOUT, SPECS, Unit
from rag_eval_hooks.sample import Field, Sample
from rag_eval_hooks.score import (
    AnnotatorKind,
    Cause,
    NotScored,
    Outcome,
    Outcomes,
    Score,
    Unavailable,
)

_LEFT_OUT: Final = NotScored(Cause.SAMPLED_OUT, "the metric's sample rate excluded this sample")
_SUPPORT: Final = (Finding.ANSWER_SUPPORT, Finding.REFERENCE_SUPPORT)
_BEST: Final = 2  # highest rating of the contexts
_MANY_NONES: Final = 3
_CUT_RATING: Final = NotScored(
    Cause.UNDEFINED,
    "the contexts were cut (see max_text_chars), and the kept text does not support every claim",
    undecided=True,
)


@dataclass(eq=False)
class Scorer:
    metrics: Sequence[Metric]
    sources: Sources
    sample_timeout: float
    incidents: Incidents
    only_fed: bool = field(kw_only=True)  # omit metrics that lack an input
    _nones: Counter[str] = field(default_factory=Counter, init=False)

    def __post_init__(self) -> None:
        self.metric_ids = tuple(metric.id for metric in self.metrics)
        needs = {field for metric in self.metrics for field in metric.needs}
        self.needed = needs & {Field.CONTEXTS, Field.ANSWER}

    async def score(
        self, sample: Sample, chosen: Container[str] | None = None, *, whole: bool = False
    ) -> Outcomes:
        absent = missing_inputs(self.metrics, sample)
        outcomes: dict[str, Outcome] = {}
        calls: list[Coroutine[Any, Any, dict[str, Outcome]]] = []
        ours: list[Metric] = []
        for metric in self.metrics:
            outcomes[metric.id] = absent.get(metric.id, _LEFT_OUT)
            if metric.id in absent or (chosen is not None and metric.id not in chosen):
                continue
            if isinstance(metric, AskedMetric):
                calls.append(self._ask(metric, sample))
            elif isinstance(metric, Criterion):
                calls.append(self._check(metric, sample))
            else:
                ours.append(metric)
        has_own = bool(calls)
        if ours:
            calls.append(self._judged(sample, ours))
        # The user's code gets a task, because the code may change the task's context.
        for part in await asyncio.gather(*calls) if has_own else [await call for call in calls]:
            outcomes |= part
        # With `whole`, the caller also needs the metrics whose inputs the sample lacks.
        if whole or not self.only_fed:
            return outcomes
        # If no metric has its inputs, the result names the missing fields.
        return {n: one for n, one in outcomes.items() if not _lacks_input(one)} or outcomes

    async def _check(self, metric: Criterion, sample: Sample) -> dict[str, Outcome]:
        if (absent := metric.absent(sample, self.sources.judge)) is not None:
            return {metric.id: self._valueless(metric, absent, is_lasting=absent.undecided)}
        about, known = metric.judged(sample)
        return await self._judged(about, [metric], known)

    async def _ask(self, metric: AskedMetric, sample: Sample) -> dict[str, Outcome]:
        limit = asyncio.timeout(metric.timeout)
        try:
            async with limit:
                result = await metric.ask(sample)
                outcome = outcome_of(result, metric.scale, metric.ask, metric.annotator)
        except (Exception, SystemExit, KeyboardInterrupt) as error:  # noqa: BLE001 - a metric may raise anything
            if not limit.expired():
                return {metric.id: self._failed(metric, error)}
            detail = f"the metric did not finish within {metric.timeout:g} s"
            return {metric.id: NotScored(Cause.TIMEOUT, detail)}
        self._note_none(metric, outcome)
        return {metric.id: outcome}

    def _note_none(self, metric: AskedMetric, outcome: Outcome) -> None:
        if isinstance(outcome, Score) or not outcome.detail.startswith(RETURNED_NOTHING):
            self._nones[metric.id] = _MANY_NONES
        elif self._nones[metric.id] < _MANY_NONES:
            self._nones[metric.id] += 1
            if self._nones[metric.id] == _MANY_NONES:
                kind = f"metric {metric.id}: none of the first {_MANY_NONES} samples has a score"
                self.incidents.count(kind, detail=outcome.detail)

    async def _judged(
        self, sample: Sample, metrics: Sequence[Metric], known: Findings | None = None
    ) -> dict[str, Outcome]:
        collector = FindingsCollector(sample, metrics, self.sources, self.incidents, known)
        found = await collector.run(self.sample_timeout)
        names = {"contexts" if name.endswith("].text") else name for name in sample.truncated}
        cut = frozenset([field for field in Field if field.value in names] if names else ())
        if cut:
            found = without_cut_verdicts(found, sample, cut)
        reads = [findings_read(metric, sample, found, self.incidents) for metric in metrics]
        readers = Counter(kind for kinds in reads for kind in kinds)
        return {
            metric.id: self._signed(metric, sample, found, kinds, readers, cut)
            for metric, kinds in zip(metrics, reads, strict=True)
        }

    def _signed(
        self,
        metric: Metric,
        sample: Sample,
        findings: Findings,
        read: frozenset[Finding],
        readers: Mapping[Finding, int],
        cut: frozenset[Field],
    ) -> Outcome:
        shares = [findings.usage[k].share(readers[k]) for k in read & findings.usage.keys()]
        used, risk = sum(shares, start=UNUSED), _risk(read, findings)
        outcome = self._measure(metric, sample, findings)
        if isinstance(outcome, NotScored):
            outcome = replace(outcome, usage=used, risk=risk)
            return self._valueless(metric, outcome, is_lasting=_lacks_input(outcome))
        told = dict.fromkeys((*_warnings(metric, read, findings, cut), *outcome.warnings))
        signature = self._signature(read, findings)
        return replace(outcome, usage=used, risk=risk, warnings=tuple(told), **signature)

    def _measure(self, metric: Metric, sample: Sample, findings: Findings) -> Outcome:
        try:
            return outcome_of(metric.score(sample, findings), metric.scale, metric.score)
        except Unavailable as absent:
            return absent.outcome
        except (Exception, SystemExit, KeyboardInterrupt) as error:  # noqa: BLE001 - a metric may raise anything
            return self._failed(metric, error)

    def _failed(self, metric: Metric, error: BaseException) -> NotScored:
        self.incidents.report(f"metric {metric.id}", error)
        is_told = isinstance(error, ResultError)
        return NotScored(
            Cause.METRIC_FAILED, str(error) if is_told else in_words("the metric", error)
        )

    def _signature(self, read: frozenset[Finding], findings: Findings) -> dict[str, Any]:
        if not read & SPECS.keys():
            source = self.sources.embedder if read & EMBEDDED else self.sources.scorer
            name = source.name if read and source is not None else None
            return {"annotator_kind": AnnotatorKind.CODE, "annotator": name, "version": __version__}
        judge = self.sources.judge
        by = {kind: findings.by[kind] for kind in sorted(read & findings.by.keys())}
        verdicts = {kind: named for kind, named in by.items() if kind not in ABOUT.values()}
        makers = dict.fromkeys(chain(*(verdicts or by).values())) or {Maker.of(judge): None}
        kinds = [maker.kind for maker in makers]
        return {
            "annotator_kind": AnnotatorKind.LLM if AnnotatorKind.LLM in kinds else kinds[0],
            "annotator": " > ".join(maker.name for maker in makers),
            "judged": True,
            "screening": any(maker.screening for maker in makers),
            "version": f"{__version__}+{judge.version}",
        }

    def _valueless(self, metric: Metric, outcome: NotScored, *, is_lasting: bool) -> NotScored:
        detail, judge = outcome.detail, self.sources.judge
        if outcome.undecided:
            detail = f"undecided: {detail}"
            if getattr(judge, "screening", False):
                detail = detail.replace("the judge", "the heuristic judge")
            is_unsure = "is unsure about" in detail
            if judge.annotator_kind is not AnnotatorKind.LLM and is_unsure:
                detail += "; configure an LLM judge"
        if is_lasting and not self.only_fed:
            self.incidents.count(str(detail), detail=f"metrics such as {metric.id} have no value")
        return replace(outcome, detail=detail)


def _lacks_input(outcome: Outcome) -> bool:
    return isinstance(outcome, NotScored) and outcome.cause is Cause.MISSING_INPUT


def _warnings(
    metric: Metric, read: frozenset[Finding], findings: Findings, cut: frozenset[Field]
) -> list[str]:
    told = [text for kind in sorted(read) for text in findings.warnings.get(kind, ())]
    if not cut:
        return told
    seen = {*metric.needs}.union(*(SPECS[kind].shows for kind in read & SPECS.keys()))
    names = [field.value for field in Field if field in seen & cut]
    return [
        *told,
        *(f"incomplete {name}: a limit cut the text, or capture lost an event" for name in names),
    ]


def _risk(read: frozenset[Finding], findings: Findings) -> float | None:
    kind = next((kind for kind in _SUPPORT if kind in read), None)
    found = () if kind is None else getattr(findings, kind)
    if isinstance(found, NotScored):
        return None
    probabilities = [one.probability for one in found if one.probability is not None]
    return 1.0 - min(probabilities) if probabilities else None


def without_cut_verdicts(findings: Findings, sample: Sample, fields: frozenset[Field]) -> Findings:
    cut = [f"contexts[{at}].text" in sample.truncated for at in range(len(sample.contexts or ()))]
    changed: dict[str, Any] = {}
    for kind, spec in SPECS.items():
        found = getattr(findings, kind)
        if isinstance(found, NotScored):
            continue
        seen = fields & {*spec.shows}
        if spec.unit is Unit.ITEM and seen - {Field.QUESTION}:
            changed[kind] = tuple(map(_unless_missing, found))
        elif spec.unit is Unit.CHUNK:
            pairs = zip(found, cut, strict=True)
            changed[kind] = tuple(
                replace(one, sure=False, reason=CUT) if is_cut and not one.useful else one
                for one, is_cut in pairs
            )
        elif spec.unit is Unit.TEMPLATE and Field.CONTEXTS in seen and {*found} - {_BEST, None}:
            changed[kind] = _CUT_RATING
    return replace(findings, **changed)


def _unless_missing(one: Support | Verdict) -> Support | Verdict:
    if isinstance(one, Verdict):
        return one if one.holds or not one.sure else replace(one, sure=False, reason=CUT)
    is_missing = one.verdict is ClaimVerdict.NOT_STATED
    return replace(one, verdict=ClaimVerdict.UNSURE, reason=CUT) if is_missing else one
