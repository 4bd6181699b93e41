"""What goes to an evaluation platform, and what a platform may answer."""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping
from dataclasses import asdict, dataclass
from typing import Any, Protocol, TypeAlias

__all__ = [
    "Connect",
    "Connection",
    "Kept",
    "Later",
    "Refused",
    "Report",
    "Result",
    "Store",
    "Unknown",
    "report_from_text",
    "report_to_text",
]


@dataclass(frozen=True, slots=True, kw_only=True)
class Result:
    """One score as platforms keep it.

    Attributes:
        name: The metric's id.
        value: In the metric's own scale.
        label: The metric's own word, else `pass` or `fail` by its threshold, else None.
        explanation: For a reader, or None.
        annotator_kind: `CODE` or `LLM`.
        identifier: Who judged. The same name, span and identifier mean the same score, so that
            one sent again replaces the first.
        metadata: What else is known; plain JSON types.
    """

    name: str
    value: float
    label: str | None
    explanation: str | None
    annotator_kind: str
    identifier: str
    metadata: Mapping[str, Any]


@dataclass(frozen=True, slots=True, kw_only=True)
class Report:
    """All scores of one sample.

    Attributes:
        trace_id: 32 hex digits of the RAG span's trace.
        span_id: 16 hex digits of the RAG span.
        time: When it was evaluated, in nanoseconds since the epoch.
        results: The scores.
    """

    trace_id: str
    span_id: str
    time: int
    results: tuple[Result, ...]

    @property
    def chars(self) -> int:
        """Characters that it keeps in memory, roughly."""
        return sum(500 + len(result.explanation or "") for result in self.results)


def report_to_text(report: Report) -> str:
    """A report as JSON."""
    return json.dumps(asdict(report), default=str)


def report_from_text(text: str) -> Report:
    """The report again.

    Raises:
        ValueError: The text is no JSON.
        TypeError: It is no report.
        KeyError: Likewise.
    """
    data = json.loads(text)
    return Report(**{**data, "results": tuple(Result(**result) for result in data["results"])})


@dataclass(eq=False, slots=True)
class Kept:
    """A report on its way through the spool.

    Attributes:
        place: Which platform it is for, also in the next process.
        id: The same whenever the same sample is evaluated in the same way.
        text: The report, until it is on disk.
        generation: Which of the files that were at the spool's path holds it; 0 for none.
    """

    place: str
    id: str
    text: str
    generation: int = 0


class Store(Protocol):
    """Keeps reports beyond the life of a process. No method waits."""

    def keep(self, kept: Kept) -> None:
        """Keeps a report, soon, before its sample is let go of."""
        ...

    def leave(self, kept: Kept, told: Callable[[bool], None]) -> None:
        """Leaves a report to whoever can send it later.

        Args:
            kept: One that was kept, or taken over.
            told: Called, from another thread, with whether it is on disk.
        """
        ...

    def drop(self, kept: Kept) -> None:
        """Lets go of a report."""
        ...


class Later(Exception):
    """The platform could not take a report now; it is sent again.

    Args:
        reason: A few words, such as `HTTP 503`; no content.
        wait: Seconds that the platform asked to wait, or None.
    """

    def __init__(self, reason: str, wait: float | None = None) -> None:
        super().__init__(reason)
        self.reason = reason
        self.wait = wait


class Unknown(Exception):
    """The platform does not know the span yet: spans are exported in batches, often later."""

    reason = "no such span"


class Refused(Exception):
    """The platform will never take the report, or these results of it.

    Args:
        reason: As for `Later`.
    """

    def __init__(self, reason: str) -> None:
        super().__init__(reason)
        self.reason = reason


class Connection(Protocol):
    """Sends reports; used by one thread."""

    def send(self, report: Report, *, last: bool) -> None:
        """Sends a report; sending one again changes nothing.

        Args:
            report: It.
            last: Whether it will not be tried again.

        Raises:
            Later: Not now.
            Unknown: Not before the span is there.
            Refused: Never.
        """
        ...

    def close(self) -> None:
        """Releases what it holds."""
        ...


Connect: TypeAlias = Callable[[float], Connection]
"""Makes a connection whose requests take so many seconds at most."""
