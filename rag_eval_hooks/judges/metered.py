"""A judge of someone else's, within the budget."""

from __future__ import annotations

from collections.abc import Awaitable, Callable

from rag_eval_hooks.findings import Findings
from rag_eval_hooks.judges.base import Judge
from rag_eval_hooks.judges.llm import LLMJudge
from rag_eval_hooks.judges.meter import Meter
from rag_eval_hooks.score import AnnotatorKind
from rag_eval_hooks.tasks import Decompose, Grade, Rate, Verify
from rag_eval_hooks.usage import Usage

__all__ = ["MeteredJudge", "metered"]


class MeteredJudge:
    """Asks the budget before each task; the judge itself is not changed.

    A task counts as one call, as nobody sees the calls inside. Tokens are those that the
    findings tell as their usage.

    Args:
        judge: Makes the findings.
    """

    def __init__(self, judge: Judge) -> None:
        self._judge = judge

    @property
    def name(self) -> str:
        """The judge's."""
        return self._judge.name

    @property
    def annotator_kind(self) -> AnnotatorKind:
        """The judge's."""
        return self._judge.annotator_kind

    @property
    def version(self) -> str:
        """The judge's."""
        return self._judge.version

    async def decompose(self, task: Decompose) -> Findings:
        """The judge's findings, if there is room for a call."""
        return await self._asked(lambda: self._judge.decompose(task))

    async def verify(self, task: Verify) -> Findings:
        """The same."""
        return await self._asked(lambda: self._judge.verify(task))

    async def rate(self, task: Rate) -> Findings:
        """The same."""
        return await self._asked(lambda: self._judge.rate(task))

    async def grade(self, task: Grade) -> Findings:
        """The same."""
        return await self._asked(lambda: self._judge.grade(task))

    async def aclose(self) -> None:
        """Closes the judge."""
        await self._judge.aclose()

    async def _asked(self, ask: Callable[[], Awaitable[Findings]]) -> Findings:
        meter = Meter()
        with meter.charging():
            meter.sent()
            findings = await ask()
            used = sum(findings.usage.values(), start=Usage())
            meter.told(round(used.input_tokens), round(used.output_tokens))
            return findings


def metered(judge: Judge) -> Judge:
    """The judge as the budget has to see it: one over a language model that counts nothing."""
    counts = isinstance(judge, LLMJudge) or judge.annotator_kind is not AnnotatorKind.LLM
    return judge if counts else MeteredJudge(judge)
