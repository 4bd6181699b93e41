"""Evaluates samples in a child process, and brings the outcomes back."""

from __future__ import annotations

import asyncio
import logging
import pickle
from collections.abc import Container, Iterable, Sequence
from dataclasses import dataclass

from rag_eval_hooks.calls import CallLog, current_watch, take_over
from rag_eval_hooks.config.settings import RagEvalConfig
from rag_eval_hooks.evaluation.plan import unfed
from rag_eval_hooks.evaluation.process.handle import (
    EvaluatorDied,
    EvaluatorRaised,
    EvaluatorRefused,
)
from rag_eval_hooks.evaluation.process.launch import Launch
from rag_eval_hooks.evaluation.process.portable import packed_sample
from rag_eval_hooks.evaluation.process.supervisor import Supervisor
from rag_eval_hooks.evaluation.scorer import Scorer, left_out
from rag_eval_hooks.incidents import Incidents
from rag_eval_hooks.metrics import AskedMetric, Metric
from rag_eval_hooks.sample import Sample
from rag_eval_hooks.score import Cause, NotScored, Outcome, Outcomes

__all__ = ["ProcessLimits", "ProcessScorer"]

_logger = logging.getLogger("rag_eval_hooks")

_PLACE = "evaluator process"


@dataclass(frozen=True, slots=True, kw_only=True)
class ProcessLimits:
    """Limits of one child process.

    Attributes:
        concurrency: Samples in it at once.
        sample_timeout: Seconds for all findings of one sample, as the child keeps them.
        metric_timeout: Seconds that the slowest of the user's own async metrics may take, as the
            child keeps them; 0 without one.
    """

    concurrency: int
    sample_timeout: float
    metric_timeout: float = 0.0

    @classmethod
    def of(cls, config: RagEvalConfig, metrics: Iterable[Metric]) -> ProcessLimits:
        """The limits by the settings and the metrics that are evaluated."""
        asked = (metric.timeout for metric in metrics if isinstance(metric, AskedMetric))
        return cls(
            concurrency=config.evaluator_concurrency,
            sample_timeout=config.sample_timeout,
            metric_timeout=max(asked, default=0.0),
        )

    @property
    def reply_timeout(self) -> float:
        """Seconds after which a child that has not replied is taken to hang."""
        # Findings and own metrics are made at the same time.
        return 1.2 * max(self.sample_timeout, self.metric_timeout) + 5.0


class ProcessScorer:
    """As `Scorer`, but the findings and metrics are made in a child process.

    The process is started with the first sample and again after it ended, with a backoff. A
    sample that was in it when it ended, or was killed because it hung, is evaluated once more, one
    such sample at a time, so that one which ends the process takes no other with it.

    Args:
        launch: What the process is started from.
        metrics: The metrics; for the outcomes of samples that were lost.
        limits: Of the process.
        incidents: Where its ends, and what it counts itself, are counted.
        only_fed: As for `Scorer`.
        instead: Evaluates in this process where the child cannot be made, or None: then samples
            fail as `evaluator_died`.
    """

    def __init__(
        self,
        launch: Launch,
        metrics: Sequence[Metric],
        limits: ProcessLimits,
        incidents: Incidents,
        *,
        only_fed: bool,
        instead: Scorer | None,
    ) -> None:
        self._launch = launch
        self._metrics = metrics
        self._limits = limits
        self._incidents = incidents
        self._only_fed = only_fed
        self._instead = instead
        self._refusal: str | None = None
        self._supervisor: Supervisor | None = None
        self._inherited: list[Supervisor] = []

    @property
    def pid(self) -> int | None:
        """The id of the running process, or None."""
        return None if self._supervisor is None else self._supervisor.pid

    async def score(self, sample: Sample, chosen: Container[str] | None = None) -> Outcomes:
        """One outcome per metric. Raises nothing but cancellation."""
        if self._refusal is not None:
            return await self._score_instead(sample, chosen, self._refusal)
        ids = None if chosen is None else frozenset(m.id for m in self._metrics if m.id in chosen)
        body, lost = packed_sample(sample, ids)
        if lost:
            self._incidents.count(f"{_PLACE}: metadata that cannot be sent")
        if len(body) > self._launch.message_bytes:
            detail = "the sample is larger than evaluator_message_mb"
            return self._absent(sample, chosen, NotScored(Cause.DROPPED, detail))
        try:
            return await self._evaluated(body)
        except EvaluatorRefused as error:
            self._note(str(error))
            return await self._score_instead(sample, chosen, str(error))
        except EvaluatorDied as error:
            detail = f"the evaluator process ended: {error}"
            return self._absent(sample, chosen, NotScored(Cause.EVALUATOR_DIED, detail))
        except TimeoutError:
            detail = "the evaluator process gave no reply in time"
            return self._absent(sample, chosen, NotScored(Cause.TIMEOUT, detail))
        except EvaluatorRaised as error:
            self._incidents.count(f"evaluation: {error}")
            detail = f"the evaluation raised {error}"
            return self._absent(sample, chosen, NotScored(Cause.METRIC_FAILED, detail))

    async def aclose(self) -> None:
        """Ends the process."""
        if self._supervisor is not None:
            await self._supervisor.aclose()

    def reset(self) -> None:
        """Lets go of a process that is the parent's: what a forked child needs."""
        if self._supervisor is not None:
            self._supervisor.forget()
            # Kept: destructors of the parent's tasks would complain in the child.
            self._inherited.append(self._supervisor)
            self._supervisor = None

    async def _evaluated(self, body: bytes) -> Outcomes:
        reply = await self._mine().evaluate(body)
        try:
            told: tuple[Outcomes, CallLog] = pickle.loads(reply)
        except Exception as error:  # noqa: BLE001 - the metric's edge: it may build its objects
            raise EvaluatorRaised(type(error).__name__) from None
        outcomes, log = told
        take_over(log)
        return outcomes

    def _mine(self) -> Supervisor:
        """The supervisor of this loop; an evaluator that was started again has another loop."""
        loop = asyncio.get_running_loop()
        if self._supervisor is None or self._supervisor.loop is not loop:
            if self._supervisor is not None:
                self._supervisor.abandon()
            self._supervisor = Supervisor(
                self._launch,
                loop,
                self._incidents,
                concurrency=self._limits.concurrency,
                reply_timeout=self._limits.reply_timeout,
                watch=current_watch(),
            )
        return self._supervisor

    def _note(self, refusal: str) -> None:
        """What cannot be made once is not tried again."""
        if self._refusal is None:
            self._refusal = refusal
            then = "fail as evaluator_died" if self._instead is None else "are scored in a thread"
            _logger.warning("no evaluator process (%s): samples %s", refusal, then)

    async def _score_instead(
        self, sample: Sample, chosen: Container[str] | None, refusal: str
    ) -> Outcomes:
        if self._instead is not None:
            return await self._instead.score(sample, chosen)
        detail = f"no evaluator process: {refusal}"
        return self._absent(sample, chosen, NotScored(Cause.EVALUATOR_DIED, detail))

    def _absent(self, sample: Sample, chosen: Container[str] | None, why: NotScored) -> Outcomes:
        """The same absence for every chosen metric that the sample feeds."""
        lacking = unfed(self._metrics, sample)
        if chosen is not None:
            lacking = {**left_out(m.id for m in self._metrics if m.id not in chosen), **lacking}
        kept: dict[str, Outcome] = {}
        for metric in self._metrics:
            if metric.id not in lacking:
                kept[metric.id] = why
            elif not self._only_fed:
                kept[metric.id] = lacking[metric.id]
        return kept
