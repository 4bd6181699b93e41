"""Cascade of two judges: the first judges all, the second what the first cannot tell."""

from __future__ import annotations

import asyncio
import hashlib
import json
import math
from collections.abc import Callable, Coroutine, Mapping, Sequence
from dataclasses import replace
from typing import Any, Final, TypeAlias

from rag_eval_hooks.errors import ConfigError, JudgeError
from rag_eval_hooks.findings import Finding, Findings, Support, Verdict
from rag_eval_hooks.judges.base import Judge
from rag_eval_hooks.judges.calls.failures import cause_of
from rag_eval_hooks.judges.calls.metered_judge import metered
from rag_eval_hooks.score import AnnotatorKind, Cause, NotScored
from rag_eval_hooks.tasks import Decompose, Grade, Rate, Verify

__all__ = ["Cascade"]

_LISTS: Final[Mapping[Finding, str]] = {
    Finding.ANSWER_SUPPORT: "answer_claims",
    Finding.ANSWER_AGREEMENT: "answer_claims",
    Finding.REFERENCE_SUPPORT: "reference_claims",
    Finding.REFERENCE_AGREEMENT: "reference_claims",
    Finding.ENTITIES_FOUND: "entities",
}
"""Verdicts on single items, and the items that they are about."""
Chances: TypeAlias = dict[Finding, list[float]]
"""Probability of each of the first judge's verdicts to be sent on."""


class Cascade:
    """Judge of two judges, for most of a language model's agreement at a part of its calls.

    The first judges everything. Verdicts that it is unsure about, or that carry a warning, are
    sent on to the second, as is a random part of the sure ones: compared with the second's, these
    show what the first is worth. What the first cannot make at all, such as rubric ratings, the
    second makes. A verdict says who gave it (`judge`) and with which probability it was sent on
    (`sent_on`); weigh by its inverse to estimate the agreement of the two.

    Example:
        ```python
        RagEval(judge=Cascade("local", "openai:gpt-4o-mini"))
        ```

    Args:
        first: A judge, or its name as in the setting `judge`: fast and cheap.
        second: A judge, or its name: the one whose word counts.
        unsure: Whether unsure verdicts, and those with a warning, are sent on; or the two
            probabilities between which a verdict is sent on.
        worth: Number of wrong verdicts to expect among the doubtful ones of a sample from which
            they are sent on. All of a sample's go in one call: the higher, the fewer calls.
        floor: Probability with which any other verdict is sent on, in [0, 1]. Chosen by a hash of
            question and item: the same sample has the same verdicts everywhere.

    Raises:
        ConfigError: `floor` is no probability, `unsure` neither a flag nor two of them, or
            `worth` below 0.
    """

    annotator_kind = AnnotatorKind.LLM

    def __init__(
        self,
        first: str | Judge,
        second: str | Judge,
        *,
        unsure: bool | tuple[float, float] = True,
        worth: float = 0.0,
        floor: float = 0.02,
    ) -> None:
        if not isinstance(unsure, bool) and not _is_band(unsure):
            raise ConfigError("unsure", unsure, "True, False, or two probabilities, low and high")
        if isinstance(floor, bool) or not isinstance(floor, int | float) or not 0 <= floor <= 1:
            raise ConfigError("floor", floor, "a probability from 0 to 1")
        if isinstance(worth, bool) or not isinstance(worth, int | float) or not worth >= 0:
            raise ConfigError("worth", worth, "a number, 0 or more")
        self._given = (first, second)
        self._unsure = unsure
        self._worth = float(worth)
        self._floor = float(floor)

    def resolved(self, choose: Callable[[str], Judge]) -> Cascade:
        """Return the cascade with judges in place of names.

        Args:
            choose: Makes a judge from its name.

        Raises:
            ConfigError: A name is unknown.
        """
        first, second = (choose(one) if isinstance(one, str) else one for one in self._given)
        rules: dict[str, Any] = {"unsure": self._unsure, "worth": self._worth}
        return Cascade(metered(first), metered(second), floor=self._floor, **rules)

    @property
    def first(self) -> Judge:
        """The judge that is asked about everything."""
        return _made(self._given[0])

    @property
    def second(self) -> Judge:
        """The judge that is asked about what is sent on."""
        return _made(self._given[1])

    @property
    def second_name(self) -> str | None:
        """Name of the second judge as in the setting `judge`; None for a judge object."""
        return self._given[1] if isinstance(self._given[1], str) else None

    @property
    def name(self) -> str:
        """Both names."""
        return " > ".join(one if isinstance(one, str) else one.name for one in self._given)

    @property
    def version(self) -> str:
        """Both versions."""
        return "+".join(one if isinstance(one, str) else one.version for one in self._given)

    @property
    def host(self) -> str | None:
        """Host of the second judge, if it is known."""
        return getattr(self._given[1], "host", None)

    async def decompose(self, task: Decompose) -> Findings:
        """Return claims and the like of the first judge; of the second what that cannot make."""
        return await self._completed(task, self.first.decompose, self.second.decompose)

    async def verify(self, task: Verify) -> Findings:
        """Return verdicts of the first judge, and of the second on what is sent on."""
        findings = await self._completed(task, self.first.verify, self.second.verify)
        chances = self._chances(task, findings)
        sent = {kind: _drawn(task, kind, one) for kind, one in chances.items()}
        sent = {kind: at for kind, at in sent.items() if at}
        if not sent:
            return findings
        chosen = {
            name: sorted({at for kind in sent if _LISTS[kind] == name for at in sent[kind]})
            for name in _LISTS.values()
        }
        second = await self._asked(task, frozenset(sent), chosen)
        values: dict[str, Any] = {}
        for kind, at in sent.items():
            where = {i: n for n, i in enumerate(chosen[_LISTS[kind]]) if i in at}
            pair = (getattr(findings, kind), getattr(second, kind))
            values[kind.value] = self._joined(*pair, where, chances[kind])
        both = (*self._by(self.first), *self._by(self.second))
        return findings.merged(Findings(**values, usage=second.usage, by=dict.fromkeys(sent, both)))

    async def rate(self, task: Rate) -> Findings:
        """Return ratings of the first judge; of the second what that cannot make or tell."""
        return await self._completed(task, self.first.rate, self.second.rate)

    async def grade(self, task: Grade) -> Findings:
        """Return grades of the first judge; of the second what that cannot make."""
        return await self._completed(task, self.first.grade, self.second.grade)

    async def warm_up(self) -> None:
        """Load local models of both judges."""
        for judge in (self.first, self.second):
            if (warm_up := getattr(judge, "warm_up", None)) is not None:
                await warm_up()

    async def aclose(self) -> None:
        """Close both judges."""
        await asyncio.gather(self.first.aclose(), self.second.aclose())

    async def _completed(
        self,
        task: Any,
        first: Callable[[Any], Coroutine[Any, Any, Findings]],
        second: Callable[[Any], Coroutine[Any, Any, Findings]],
    ) -> Findings:
        findings = await first(task)
        lacking = frozenset(k for k in task.wanted if self._lacks(getattr(findings, k)))
        by = dict.fromkeys(task.wanted - lacking, self._by(self.first))
        findings = replace(findings, by=by)
        if lacking:
            others = await second(replace(task, wanted=lacking))
            by = dict.fromkeys(lacking, self._by(self.second))
            findings = findings.merged(replace(others, by=by))
        return findings

    async def _asked(
        self, task: Verify, wanted: frozenset[Finding], chosen: Mapping[str, Sequence[int]]
    ) -> Findings:
        """Return what the second judge says of the chosen items, or why it says nothing."""
        lists: dict[str, Any] = {
            name: tuple(getattr(task, name)[at] for at in chosen[name]) for name in _LISTS.values()
        }
        try:
            return await self.second.verify(replace(task, wanted=wanted, **lists))
        except JudgeError as error:
            failed = Findings.absent(wanted, NotScored(cause_of(error), str(error)))
            return failed.merged(Findings(usage={min(wanted): error.usage}))

    def _lacks(self, finding: Any) -> bool:
        if isinstance(finding, NotScored):
            return finding.cause is Cause.MISSING_INPUT
        return bool(self._unsure) and isinstance(finding, Verdict) and not finding.sure

    @staticmethod
    def _by(judge: Judge) -> tuple[tuple[str, AnnotatorKind], ...]:
        return ((judge.name, judge.annotator_kind),)

    def _chances(self, task: Verify, findings: Findings) -> Chances:
        doubts = {
            kind: [self._doubt(verdict) for verdict in getattr(findings, kind)]
            for kind in sorted(task.wanted & _LISTS.keys())
            if not isinstance(getattr(findings, kind), NotScored)
            and findings.by[kind] == self._by(self.first)
        }
        asked = math.fsum(doubt for one in doubts.values() for doubt in one) >= self._worth
        return {
            kind: [1.0 if asked and doubt else self._floor for doubt in one]
            for kind, one in doubts.items()
        }

    def _doubt(self, verdict: Support | Verdict) -> float:
        """Return the probability that a doubtful verdict is wrong; 0 for one that is none."""
        doubtful = not verdict.sure or bool(getattr(verdict, "warning", ""))
        probability = verdict.probability
        if isinstance(self._unsure, tuple) and probability is not None:
            low, high = self._unsure
            return min(probability, 1 - probability) if low < probability < high else 0.0
        return 0.5 if self._unsure and doubtful else 0.0

    def _joined(
        self, first: Any, second: Any, where: Mapping[int, int], chances: Sequence[float]
    ) -> Any:
        """Return the first's verdicts with the second's on what was sent on.

        Where the second failed, sure verdicts stand; an unsure one leaves the finding absent.

        Args:
            first: Verdicts of the first judge.
            second: Those of the second on what it was asked, or why there are none.
            where: Position among these of each verdict that was sent on.
            chances: Probability of each of the first's to be sent on.
        """
        if isinstance(second, NotScored):
            return first if all(first[at].sure for at in where) else second
        return tuple(
            replace(second[where[at]], judge=self.second.name, sent_on=chance)
            if at in where
            else replace(verdict, judge=self.first.name, sent_on=chance)
            for at, (verdict, chance) in enumerate(zip(first, chances, strict=True))
        )


def _is_band(given: object) -> bool:
    return (
        isinstance(given, tuple)
        and len(given) == 2
        and all(isinstance(one, int | float) for one in given)
        and 0 <= given[0] <= given[1] <= 1
    )


def _drawn(task: Verify, kind: Finding, chances: Sequence[float]) -> list[int]:
    """Return the positions of the verdicts that are sent on."""
    items = zip(getattr(task, _LISTS[kind]), chances, strict=False)
    return [
        at for at, (item, chance) in enumerate(items) if _draw(task.question, kind, item) < chance
    ]


def _draw(question: str, kind: Finding, item: str) -> float:
    """Return a number in [0, 1) that depends on its arguments alone."""
    text = json.dumps([question, kind, item]).encode("ascii")
    return int.from_bytes(hashlib.blake2b(text, digest_size=7).digest()) / 2**56


def _made(judge: str | Judge) -> Judge:
    if isinstance(judge, str):
        raise RuntimeError(f"the cascade's judge {judge!r} was not made yet: give it to RagEval")
    return judge
