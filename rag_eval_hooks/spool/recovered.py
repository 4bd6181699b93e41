"""Samples in the spool: their handles, changes of their rows, and what takes them back."""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping
from concurrent.futures import Future
from dataclasses import dataclass, replace
from typing import Any, Final, Protocol

from rag_eval_hooks.errors import RedactionError
from rag_eval_hooks.incidents import Incidents
from rag_eval_hooks.redaction import Redactor
from rag_eval_hooks.sample import Sample
from rag_eval_hooks.score import Outcome, Outcomes, Score
from rag_eval_hooks.spool.codec import StoredEvaluation, evaluation_from_text, sample_from_text
from rag_eval_hooks.spool.file import SpoolFile
from rag_eval_hooks.spool.schema import Row

__all__ = [
    "ALL_SINKS",
    "BEGIN",
    "DELIVERED",
    "DISCARD",
    "KEEP",
    "SETTLE",
    "Entry",
    "Receiver",
    "Recovered",
    "Write",
    "recover",
]

ALL_SINKS: Final = "*"
"""Name that stands for every sink, in rows of a spool of version 1, which names none."""
_MOST_TRIES: Final = 10
BEGIN: Final = "UPDATE rows SET tries = tries + 1 WHERE seq = ?"
KEEP: Final = "UPDATE rows SET evaluation = ?, sinks = ? WHERE seq = ?"
DELIVERED: Final = "UPDATE rows SET sinks = json_patch(sinks, json_object(?, NULL)) WHERE seq = ?"
SETTLE: Final = "UPDATE rows SET entry = coalesce(entry, ?) WHERE seq = ?"
DISCARD: Final = "UPDATE rows SET entry = coalesce(entry, ?), sinks = '{}' WHERE seq = ?"


class Entry:
    """Handle of one sample in the spool; the caller passes it on and reads nothing of it.

    Args:
        build: Returns the sample.
        probability: Inclusion probability.
        reason: Reason of the sampler's choice.
        accepted_at: Acceptance in seconds since the epoch.
    """

    __slots__ = (
        "accepted_at",
        "build",
        "file",
        "is_kept",
        "is_settled",
        "probability",
        "reason",
        "seq",
    )

    def __init__(
        self,
        build: Callable[[], Sample] | None,
        probability: float,
        reason: str,
        accepted_at: float,
    ) -> None:
        self.build = build
        self.probability = probability
        self.reason = reason
        self.accepted_at = accepted_at
        self.file: SpoolFile | None = None
        self.seq = 0
        self.is_kept = False
        self.is_settled = False

    @property
    def is_stored(self) -> bool:
        """True if the sample is on disk."""
        return self.file is not None and not self.file.is_lost


@dataclass(slots=True)
class Write:
    """Operation on one sample: to store it, or to change its row by a statement.

    The statement's last parameter is the number of the row. The future gets whether the change is
    on disk.
    """

    entry: Entry
    statement: str = ""
    values: tuple[Any, ...] = ()
    done: Future[bool] | None = None

    def finish(self, written: bool) -> None:
        """Tell the caller, once, whether the change is on disk."""
        future, self.done = self.done, None
        # The caller may have run out of patience and cancelled the future.
        if future is not None and future.set_running_or_notify_cancel():
            future.set_result(written)


@dataclass(frozen=True, slots=True, kw_only=True)
class Recovered:
    """Sample that waited on disk.

    Attributes:
        entry: Its handle.
        sample: The sample.
        probability: Inclusion probability when it was accepted.
        reason: Reason of that choice.
        accepted_at: Acceptance in seconds since the epoch.
        tries: Evaluations of it that were begun before, none of which ended.
        evaluation: Its evaluation, or None if it has to be evaluated.
        sinks: Sinks that lack the evaluation, each with the position at which a resumable sink
            stood before it was delivered, and None for others. May contain `ALL_SINKS`.
        counted: Whether its end is in the books already, so that it is only to be delivered.
        refusal: Reason not to evaluate it, or None.
    """

    entry: Entry
    sample: Sample
    probability: float
    reason: str
    accepted_at: float
    tries: int = 0
    evaluation: StoredEvaluation | None = None
    sinks: Mapping[str, int | None]
    counted: bool = False
    refusal: str | None = None


class Receiver(Protocol):
    """Taker of the samples that wait on disk; called in the spool's thread."""

    def capacity(self, sink: str | None) -> int:
        """Return how many more samples a sink can take, or the evaluator for None.

        A sink that is not in the settings takes none.
        """
        ...

    def knows(self, sink: str) -> bool:
        """Return whether a sink is in the settings."""
        ...

    def take(self, recovered: Recovered, sink: str | None) -> bool:
        """Take a sample for a sink, or for the evaluator; False leaves it on disk."""
        ...


def recover(row: Row, file: SpoolFile, redactor: Redactor, incidents: Incidents) -> Recovered:
    """Return the sample of a row, redacted by the present settings.

    A row that cannot be read is refused, and so is one whose evaluation was begun too often by
    processes that did not survive it.

    Args:
        row: The row, of any content.
        file: Its file.
        redactor: Applied if the sample was stored under other settings.
        incidents: Counts failures.
    """
    try:
        return _recovered(row, file, redactor)
    except Exception as error:  # noqa: BLE001 - the file's edge: anything may have written it
        incidents.report("spool", error)
        failed = isinstance(error, RedactionError)
        entry = _entry(row, file)
        return Recovered(
            entry=entry,
            sample=Sample(question=""),
            probability=entry.probability,
            reason=entry.reason,
            accepted_at=entry.accepted_at,
            sinks={},
            counted=row.entry is not None,
            refusal="redaction_failed" if failed else "unreadable",
        )


def _recovered(row: Row, file: SpoolFile, redactor: Redactor) -> Recovered:
    sample, mark = sample_from_text(row.sample)
    evaluation = None if row.evaluation is None else evaluation_from_text(row.evaluation)
    if redactor.active and mark != redactor.mark:
        sample = redactor.again(sample)
        if evaluation is not None:
            evaluation = replace(evaluation, outcomes=_without_quotes(evaluation.outcomes))
    sinks = {
        str(name): None if position < 0 else int(position)
        for name, position in json.loads(row.sinks).items()
    }
    if not 0.0 <= row.probability <= 1.0:
        raise ValueError("probability")
    entry = _entry(row, file, row.probability, row.reason, float(row.accepted_at))
    entry.is_kept = evaluation is not None
    return Recovered(
        entry=entry,
        sample=sample,
        probability=row.probability,
        reason=str(row.reason),
        accepted_at=float(row.accepted_at),
        tries=row.tries,
        evaluation=evaluation,
        sinks=sinks,
        counted=row.entry is not None,
        refusal="gave_up" if row.tries >= _MOST_TRIES and evaluation is None else None,
    )


def _entry(
    row: Row,
    file: SpoolFile,
    probability: float = 1.0,
    reason: str = "",
    accepted_at: float = 0.0,
) -> Entry:
    entry = Entry(None, probability, reason, accepted_at)
    entry.file, entry.seq, entry.is_settled = file, row.seq, row.entry is not None
    return entry


def _without_quotes(outcomes: Outcomes) -> Outcomes:
    """Return outcomes without explanations, which quote the texts as they were."""
    return {name: _without_quote(outcome) for name, outcome in outcomes.items()}


def _without_quote(outcome: Outcome) -> Outcome:
    return replace(outcome, explanation={}) if isinstance(outcome, Score) else outcome
