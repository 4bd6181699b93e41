"""`Cascade`: a judge that asks a cheap judge first, and a second judge about unsure verdicts."""

from __future__ import annotations

import asyncio
import hashlib
import json
import logging
from collections.abc import Callable
from dataclasses import replace
from typing import Any, TypeAlias

from rag_eval_hooks.errors import ConfigError, kind_of
from rag_eval_hooks.findings import Finding, Findings, Maker, Support, Verdict, is_close
from rag_eval_hooks.incidents import Incidents
from rag_eval_hooks.judges import Judge, findings_by
from rag_eval_hooks.judges.failures import absence_of, report_failure
from rag_eval_hooks.prompts.specs import ABOUT
from rag_eval_hooks.sample import Sample
from rag_eval_hooks.score import AnnotatorKind, Cause, NotScored

_logger = logging.getLogger("rag_eval_hooks")

Positions: TypeAlias = dict[Finding, list[int]]  # positions of items; an empty list means all


class Cascade:
    """A judge that asks a cheap judge first, and a second judge about unsure verdicts.

    The first judge may mark a verdict as unsure. The cascade also treats a verdict as unsure if it
    has a warning, or a probability between 0.3 and 0.7. The second judge makes all findings that
    the first judge cannot make. If the second judge fails, the cascade keeps the first judge's
    findings.

    To measure how often the judges agree, the second judge also checks a random fraction of the
    sure verdicts.

    `Support.judge` names the judge of each verdict. `Support.sent_on` is the probability with which
    the cascade asks the second judge about the verdict. To estimate how often the judges agree,
    weight each verdict by 1 / `sent_on`.

    Example:
        ```python
        RagEval(judge=Cascade("heuristic", "openai:gpt-4o-mini"))
        ```

    Args:
        first: A fast, cheap judge, or a name that the setting `judge` accepts.
        second: A better judge, or its name. Its verdict replaces the first judge's verdict.
        floor: Fraction in [0, 1] of the sure verdicts that the second judge also checks. A hash of
            the question and the judged text chooses these verdicts, so each run chooses the same.
    """

    annotator_kind = AnnotatorKind.LLM

    incidents: Incidents | None = None  # counts the first judge's failures

    def __init__(self, first: str | Judge, second: str | Judge, *, floor: float = 0.02) -> None:
        if isinstance(floor, bool) or not isinstance(floor, int | float) or not 0 <= floor <= 1:
            raise ConfigError("floor", floor, "a probability from 0 to 1")
        for one in (first, second):
            if not isinstance(one, str | Judge):
                raise ConfigError("judge", kind_of(one), "a Judge, or the name of a judge")
        self.first, self.second = first, second
        self.second_name = second if isinstance(second, str) else None
        self.name = " > ".join(str(getattr(one, "name", one)) for one in (first, second))
        self.version = "+".join(str(getattr(one, "version", one)) for one in (first, second))
        self.host: str | None = getattr(second, "host", None)
        self.one_call = bool(getattr(first, "one_call", False))
        self._floor = float(floor)

    def resolved(self, choose: Callable[[str], Judge]) -> Cascade:
        given = (self.first, self.second)
        first, second = (choose(one) if isinstance(one, str) else one for one in given)
        return Cascade(first, second, floor=self._floor)

    async def make(self, sample: Sample, wanted: frozenset[Finding], known: Findings) -> Findings:
        judges = _made(self.first), _made(self.second)
        first = await _tried(judges[0], sample, wanted, known)
        if self.incidents is not None:
            report_failure(self.incidents, judges[0], wanted, first)
        sent = self._sent(sample.question, wanted, first, known)
        places = _places(sent, known)
        items: dict[str, Any] = {
            base.value: tuple(getattr(known, base)[at] for at in listed)
            for base, listed in places.items()
        }
        second = await _tried(judges[1], sample, frozenset(sent), replace(known, **items))
        makers = Maker.of(judges[0]), Maker.of(judges[1])
        found: dict[str, Any] = {}
        by: dict[Finding, tuple[Maker, ...]] = dict.fromkeys(wanted, makers[:1])
        for kind, positions in sent.items():
            before, after = getattr(first, kind), getattr(second, kind)
            is_made = not isinstance(after, NotScored)
            if not positions and (is_made or isinstance(before, NotScored)):
                found[kind.value], by[kind] = after, makers[1:]
            elif positions and is_made and len(after) == len(places[ABOUT[kind]]):
                others = dict(zip(places[ABOUT[kind]], after, strict=True))
                found[kind.value] = tuple(
                    replace(
                        others[at] if at in positions else verdict,
                        judge=makers[at in positions].name,
                        sent_on=self._chance(verdict),
                    )
                    for at, verdict in enumerate(before)
                )
                by[kind] = makers[1:] if len(positions) == len(before) else makers
        joined = first.merged(Findings(usage=second.usage, warnings=second.warnings))
        return replace(joined, **found, by=by)

    def expected_calls(self, _wanted: frozenset[Finding]) -> int:
        return 0  # the number depends on the first judge's verdicts

    async def warm_up(self) -> None:
        for judge in (self.first, self.second):
            if (warm_up := getattr(judge, "warm_up", None)) is not None:
                await warm_up()

    async def aclose(self) -> None:
        await asyncio.gather(_made(self.first).aclose(), _made(self.second).aclose())

    def _sent(
        self, question: str, wanted: frozenset[Finding], first: Findings, known: Findings
    ) -> Positions:
        sent: Positions = {}
        for kind in sorted(wanted):
            finding = getattr(first, kind)
            if _lacks(finding):
                sent[kind] = []
            elif kind in ABOUT:
                pairs = enumerate(zip(getattr(known, ABOUT[kind]), finding, strict=False))
                draws = ((at, _draw(question, kind, item), one) for at, (item, one) in pairs)
                if listed := [at for at, draw, one in draws if draw < self._chance(one)]:
                    sent[kind] = listed
        return sent

    def _chance(self, verdict: Support | Verdict) -> float:
        has_flaw = bool(getattr(verdict, "warning", ""))
        doubtful = is_close(verdict.probability) or has_flaw or not verdict.sure
        return 1.0 if doubtful else self._floor


def _places(sent: Positions, known: Findings) -> Positions:
    places: Positions = {}
    for kind, positions in sent.items():
        base = ABOUT.get(kind)
        if base is not None and not isinstance(items := getattr(known, base), NotScored):
            listed = positions or range(len(items))
            places[base] = sorted({*listed, *places.get(base, ())})
    return places


def _lacks(finding: Any) -> bool:
    if isinstance(finding, NotScored):
        return finding.cause is Cause.MISSING_INPUT or finding.cause.is_failure
    if isinstance(finding, Verdict):
        return not finding.sure
    # The second judge can judge one claim or entity alone, but must rate all chunks together.
    return isinstance(finding, tuple) and any(
        not isinstance(one, Support | Verdict) and not getattr(one, "sure", True) for one in finding
    )


async def _tried(
    judge: Judge, sample: Sample, wanted: frozenset[Finding], known: Findings
) -> Findings:
    if not wanted:
        return Findings()
    try:
        return await findings_by(judge, sample, wanted, known)
    except Exception as error:
        _logger.debug("Judge %s failed.", judge.name, exc_info=True)
        return Findings.absent(wanted, absence_of(error))


def _draw(question: str, kind: Finding, item: str) -> float:
    text = json.dumps([question, kind, item]).encode("ascii")
    return int.from_bytes(hashlib.blake2b(text, digest_size=7).digest()) / 2**56


def _made(judge: str | Judge) -> Judge:
    if isinstance(judge, str):
        raise RuntimeError(f"Pass the cascade to RagEval, which creates the judge {judge!r}.")
    return judge
