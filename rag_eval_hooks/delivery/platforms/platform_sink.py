"""What all sinks for evaluation platforms have in common."""

from __future__ import annotations

import hashlib
import os
import time
from collections.abc import Callable, Mapping
from dataclasses import asdict, dataclass
from typing import Any, Final

from rag_eval_hooks import semconv
from rag_eval_hooks.delivery.outbox import Limits, Outbox
from rag_eval_hooks.delivery.platforms.explanation_text import prose
from rag_eval_hooks.delivery.platforms.platform import Connect, Kept, Report, Result, Store
from rag_eval_hooks.errors import ConfigError
from rag_eval_hooks.ids import result_id
from rag_eval_hooks.incidents import Incidents
from rag_eval_hooks.sample import Sample
from rag_eval_hooks.score import Outcomes, Score

__all__ = ["PlatformHost", "PlatformSink"]

_CLOSE_TIMEOUT: Final = 1.5


@dataclass(frozen=True, slots=True, kw_only=True)
class PlatformHost:
    """What an evaluator gives to its platform sinks.

    Attributes:
        limits: What sending may take.
        content: Whether explanations may quote the application's texts.
        max_chars: Characters of one explanation.
        verdicts: Pass or fail of the metrics that have a threshold.
    """

    limits: Limits
    content: bool
    max_chars: int
    verdicts: Callable[[Outcomes], Mapping[str, bool]]


class PlatformSink:
    """Sends scores to a platform that keeps traces, in the background.

    `deliver` takes over at once, whatever the platform does. With a spool, scores stay in it until
    the platform has taken them.

    Args:
        name: The platform, as in counts and logs.
        connect: Makes a connection to it.
        address: What tells it from others of its name, such as its URL: what was kept for one
            address goes to no other. Never written down as it is.
        content: Whether explanations may quote the application's texts; None for what the
            setting `capture_content` says.
    """

    def __init__(
        self, name: str, connect: Connect, *, address: str = "", content: bool | None = None
    ) -> None:
        self.name = name
        # A URL may hold credentials.
        self.place = f"{name}-{hashlib.sha256(address.encode()).hexdigest()[:12]}"
        self._connect = connect
        self._content = content
        self._host: PlatformHost | None = None
        self._outbox: Outbox | None = None
        self._no_span = 0
        self._process: int | None = None

    def open(self, host: PlatformHost, incidents: Incidents, store: Store | None = None) -> None:
        """Begins in this process, with nothing waiting; called at start and in a forked child.

        Args:
            host: What the evaluator gives.
            incidents: Where losses and failed tries are counted.
            store: Where scores are kept until they are sent, or None for memory only.

        Raises:
            ConfigError: Another evaluator of this process has the sink already.
        """
        if self._process == os.getpid():
            raise ConfigError("sinks", self.name, "a sink of its own for each RagEval")
        self._process = os.getpid()
        self._host = host
        self._outbox = Outbox(
            self.name, self._connect, host.limits, incidents, store=store, place=self.place
        )
        self._no_span = 0

    def deliver(self, sample: Sample, outcomes: Outcomes) -> None:
        """Takes over the scores of one sample, where its span is recorded."""
        if self._outbox is None or self._host is None:
            raise RuntimeError(f"{self.name}: delivered to before it was opened")
        if sample.trace_id is None or sample.span_id is None:
            self._no_span += 1
            return
        results = self._results(self._host, outcomes)
        if results:
            self._outbox.put(
                Report(
                    trace_id=sample.trace_id,
                    span_id=sample.span_id,
                    time=time.time_ns(),
                    results=results,
                ),
                result_id(sample.sample_id, outcomes),
            )

    def room(self) -> int:
        """How many more reports of the store it can take over."""
        return 0 if self._outbox is None else self._outbox.room()

    def take(self, kept: Kept) -> None:
        """Takes over a report of the store."""
        if self._outbox is not None:
            self._outbox.take(kept)

    def books(self) -> Mapping[str, int]:
        """Samples taken, sent, lost and waiting, and those without a span to put scores on.

        With a spool also `spooled`: left in it for later, for this process or another.
        """
        books = {} if self._outbox is None else self._outbox.books()
        return {**books, "no_span": self._no_span}

    def flush(self, timeout: float | None) -> bool:
        """Waits until what was delivered is sent or lost; False when the time did not suffice."""
        return self._outbox is None or self._outbox.flush(timeout)

    def close(self) -> None:
        """Tries to send what waits, for a moment; the rest is left in the spool, else lost."""
        if self._outbox is not None:
            self._outbox.close(_CLOSE_TIMEOUT)

    def _results(self, host: PlatformHost, outcomes: Outcomes) -> tuple[Result, ...]:
        content = host.content if self._content is None else self._content
        verdicts = host.verdicts(outcomes)
        return tuple(
            Result(
                name=name,
                value=score.value,
                label=_label(score, verdicts.get(name)),
                explanation=prose(score.explanation, host.max_chars, content=content),
                annotator_kind=score.annotator_kind.value,
                identifier=score.annotator or semconv.TRACER_NAME,
                metadata=_metadata(score, verdicts.get(name)),
            )
            for name, score in outcomes.items()
            if isinstance(score, Score)
        )


def _label(score: Score, passed: bool | None) -> str | None:
    if score.label is None and passed is not None:
        return "pass" if passed else "fail"
    return score.label


def _metadata(score: Score, passed: bool | None) -> dict[str, Any]:
    usage = {key: value for key, value in asdict(score.usage).items() if value}
    told: dict[str, Any] = {
        "normalised": score.normalised,
        "passed": passed,
        "version": score.version,
        "parts": dict(score.parts),
        "usage": usage,
        "sample_rate": score.probability,
        "sample_rate_estimated": score.probability_estimated or None,
        "reason": score.reason,
    }
    return {key: value for key, value in told.items() if value not in (None, "", {})}
