"""Budget and observation for judges of a user's."""

from __future__ import annotations

from rag_eval_hooks.calls import Caller
from rag_eval_hooks.findings import Finding, Findings
from rag_eval_hooks.judges.base import Judge
from rag_eval_hooks.judges.calls.context import observed_call
from rag_eval_hooks.judges.llm import LLMJudge
from rag_eval_hooks.prompts import ABOUT, SPECS
from rag_eval_hooks.sample import Sample
from rag_eval_hooks.score import AnnotatorKind
from rag_eval_hooks.usage import Usage

__all__ = ["MeteredJudge", "metered"]


class MeteredJudge:
    """Judge of a user's, within the budget and observed; the judge itself is not changed.

    A call of `make` counts as one call, as the calls inside are not visible. Tokens are those that
    the findings report as their usage.
    """

    def __init__(self, judge: Judge) -> None:
        self._judge = judge
        self.name = judge.name
        self.annotator_kind = judge.annotator_kind
        self.version = judge.version

    async def make(self, sample: Sample, wanted: frozenset[Finding], known: Findings) -> Findings:
        with observed_call(Caller(self.name), is_request=False) as meter:
            async with meter.sending():
                findings = await self._judge.make(sample, wanted, known)
            used = sum(findings.usage.values(), start=Usage())
            meter.replied(round(used.input_tokens), round(used.output_tokens))
            return findings

    def expected_calls(self, wanted: frozenset[Finding]) -> int:
        """Return one call for items, and one for verdicts about them."""
        judged = wanted & SPECS.keys()
        return len({kind in ABOUT for kind in judged})

    async def aclose(self) -> None:
        await self._judge.aclose()


def metered(judge: Judge) -> Judge:
    """Wrap a judge over a language model whose requests are not visible, and no other."""
    counts = (
        isinstance(judge, LLMJudge | MeteredJudge) or judge.annotator_kind is not AnnotatorKind.LLM
    )
    return judge if counts else MeteredJudge(judge)
