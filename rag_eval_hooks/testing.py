"""Test doubles for an application's tests. The doubles use no network and no model.

Example:
    ```python
    sink = MemorySink()
    judge = ScriptedJudge(Findings(answer_claims=("a",), answer_support=(Support((True,)),)))
    evals = RagEval(metrics=["ragas.faithfulness"], judge=judge, sinks=[sink])
    chain.invoke(question, config={"callbacks": [RagEvalCallbackHandler(evals)]})
    evals.flush()
    assert sink.results[0].outcomes["ragas.faithfulness"].value == 1.0
    ```
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from typing import NamedTuple

from rag_eval_hooks.errors import check_type
from rag_eval_hooks.feedback import Feedback
from rag_eval_hooks.findings import Finding, Findings
from rag_eval_hooks.result import Evaluation
from rag_eval_hooks.sample import Sample
from rag_eval_hooks.score import AnnotatorKind


class MemorySink:
    """Keeps evaluations and feedback in memory. Call `RagEval.flush` before reading."""

    def __init__(self) -> None:
        self.results: list[Evaluation] = []
        self.feedbacks: list[Feedback] = []
        self.closed = False

    def deliver(self, evaluation: Evaluation) -> None:
        self.results.append(evaluation)

    def feedback(self, feedback: Feedback) -> None:
        self.feedbacks.append(feedback)

    def close(self) -> None:
        self.closed = True


class JudgeCall(NamedTuple):
    """Arguments of a `Judge.make` call: the sample, requested findings, and existing findings."""

    sample: Sample
    wanted: frozenset[Finding]
    known: Findings


class ScriptedJudge:
    """A judge that returns prepared findings.

    Args:
        script: Findings, or a function that takes a `JudgeCall` and returns findings. If a metric
            needs a finding that the script lacks, the cause of the missing score is `judge_failed`.
        error: Exception to raise in each call, such as `JudgeError("down")`, or None.
        latency: Delay before each reply, in seconds.
    """

    name = "scripted"
    annotator_kind = AnnotatorKind.CODE
    version = "scripted"

    def __init__(
        self,
        script: Findings | Callable[[JudgeCall], Findings] | None = None,
        *,
        error: BaseException | None = None,
        latency: float = 0.0,
    ) -> None:
        if not callable(script):
            check_type("script", script, Findings, "Findings, or a function that takes a JudgeCall")
        self._script = script or Findings()
        self._error = error
        self._latency = latency
        self.calls: list[JudgeCall] = []

    async def make(self, sample: Sample, wanted: frozenset[Finding], known: Findings) -> Findings:
        call = JudgeCall(sample, wanted, known)
        self.calls.append(call)
        await asyncio.sleep(self._latency)
        if self._error is not None:
            raise self._error
        script = self._script(call) if callable(self._script) else self._script
        made = (kind.value for kind in wanted if script.asked(kind))
        return Findings(**{name: getattr(script, name) for name in made})

    async def aclose(self) -> None:
        pass
