"""What a process takes over from one that has ended."""

from __future__ import annotations

from dataclasses import dataclass, replace

from rag_eval_hooks.errors import RedactionError
from rag_eval_hooks.incidents import Incidents
from rag_eval_hooks.redaction import Redactor
from rag_eval_hooks.sample import Sample
from rag_eval_hooks.score import Outcome, Outcomes, Score
from rag_eval_hooks.spool.codec import outcomes_from_text, sample_from_text
from rag_eval_hooks.spool.entry import Entry
from rag_eval_hooks.spool.file import Row

__all__ = ["Recovered", "recovered"]

_MOST_TRIES = 10


@dataclass(frozen=True, slots=True, kw_only=True)
class Recovered:
    """A sample from the spool.

    Attributes:
        entry: The sample.
        outcomes: What was found already.
        refusal: Why it is not to be evaluated, or None.
    """

    entry: Entry
    outcomes: Outcomes | None = None
    refusal: str | None = None


def recovered(row: Row, generation: int, incidents: Incidents, redactor: Redactor) -> Recovered:
    """The sample of a row.

    A row that cannot be read is refused, and so is one whose evaluation was begun too often by
    processes that did not live to its end: it may be what ends them. A row that was written under
    other settings of redaction is redacted now.
    """
    refusal = "gave_up" if row.tries >= _MOST_TRIES else None
    outcomes = None
    try:
        sample, mark = sample_from_text(row.sample)
        if row.outcomes is not None:
            outcomes = outcomes_from_text(row.outcomes)
        if redactor.active and mark != redactor.mark:
            sample = redactor.again(sample)
            outcomes = None if outcomes is None else _quoteless(outcomes)
    except Exception as error:  # noqa: BLE001 - the file's edge: who knows what wrote it
        incidents.report("spool", error)
        unredacted = isinstance(error, RedactionError)
        refusal = "redaction_failed" if unredacted else "unreadable"
        sample, outcomes = Sample(question="", sample_id=row.id), None
    entry = Entry(
        lambda: sample,
        probability=row.probability,
        reason=row.reason,
        generation=generation,
        positions=row.positions,
        accepted_at=row.accepted_at,
    )
    return Recovered(entry=entry, outcomes=outcomes, refusal=refusal)


def _quoteless(outcomes: Outcomes) -> Outcomes:
    """Outcomes without explanations, which quote the texts as they were."""
    return {name: _without_quotes(outcome) for name, outcome in outcomes.items()}


def _without_quotes(outcome: Outcome) -> Outcome:
    return replace(outcome, explanation={}) if isinstance(outcome, Score) else outcome
