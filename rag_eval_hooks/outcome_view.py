"""Outcomes for a terminal or a notebook, worst score first."""

from __future__ import annotations

import html
import textwrap
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from typing import Any, Final

from rag_eval_hooks.encodable import encodable
from rag_eval_hooks.errors import InputError, unknown
from rag_eval_hooks.explanation_text import failed_items, one_line
from rag_eval_hooks.score import Outcome, Score

__all__ = ["GOOD", "OutcomeTable", "html_table", "outcome_lines"]

GOOD: Final = 0.8
"""Normalized score from which no reason is shown."""
_REASON_CHARS: Final = 1000
"""Maximum length of one score's reason."""


class NoOutcome(KeyError):
    """No outcome has this name."""

    __str__ = Exception.__str__


class OutcomeTable(dict[str, Outcome]):
    """Outcomes by metric that display as a table."""

    def __missing__(self, name: object) -> Outcome:
        raise NoOutcome(unknown("There is no outcome of", name, list(self)))

    def __getattr__(self, name: str) -> Any:
        one = next(iter(self), "ragas.faithfulness")
        raise AttributeError(f"Outcomes have no {name!r}. Write: outcomes[{one!r}].value")

    def __await__(self) -> Any:
        raise InputError("evaluate() has no coroutine. Write: await evals.aevaluate(...)")

    def __repr__(self) -> str:
        """Return one line per metric, and the reason of each bad score."""
        return "\n".join(text for text, _ in outcome_lines(self)) or "{}"

    def _repr_html_(self) -> str:
        return html_table(_cells(name, outcome) for name, outcome in _worst_first(self))


def outcome_lines(
    outcomes: Mapping[str, Outcome], failed: Collection[str] = ()
) -> Iterator[tuple[str, Outcome]]:
    """Yield one text per outcome: its value, name, label and reason.

    Args:
        outcomes: The outcomes, by metric.
        failed: Metrics below their threshold; they come first.
    """
    for name, outcome in sorted(_worst_first(outcomes), key=lambda item: item[0] not in failed):
        _, value, label, reason = _cells(name, outcome)
        note = f"  ({label})" if label else ""
        below = f"\n{textwrap.indent(reason, ' ' * 10)}" if reason else ""
        yield f"  {value:>6}  {name}{note}{below}", outcome


def html_table(rows: Iterable[Sequence[object]]) -> str:
    """Return a table with the first column as row headers. Texts are escaped."""
    return f"<table>{''.join(map(_row, rows))}</table>"


def _row(cells: Sequence[object]) -> str:
    first, *others = (html.escape(str(cell)).replace("\n", "<br>") for cell in cells)
    columns = "".join(f'<td style="text-align:left">{cell}</td>' for cell in others)
    return f'<tr><th style="text-align:left">{first}</th>{columns}</tr>'


def _worst_first(outcomes: Mapping[str, Outcome]) -> list[tuple[str, Outcome]]:
    """Return the outcomes by name: undecided outcomes, scores, other absences."""
    return sorted(outcomes.items(), key=lambda item: _rank(item[1]))


def _rank(outcome: Outcome) -> float:
    if isinstance(outcome, Score):
        return outcome.normalized
    if outcome.risk is not None:
        return -outcome.risk
    return -1.0 if outcome.undecided else 2.0


def _cells(name: str, outcome: Outcome) -> tuple[str, ...]:
    """Return name, value, label with risk, and reason, without unprintable characters."""
    if isinstance(outcome, Score):
        reason = "" if outcome.normalized >= GOOD else _reason(outcome)
        value = f"{outcome.value:.2f}"
        words = [outcome.label, "screening" if outcome.screening else None]
    else:
        items = failed_items(outcome.explanation)
        value, reason = "-", "\n".join([outcome.detail, *items])[:_REASON_CHARS]
        words = ["undecided" if outcome.undecided else outcome.cause.value]
    if outcome.risk is not None:
        words.append(f"risk {outcome.risk:.2f}")
    return tuple(map(encodable, (name, value, ", ".join(filter(None, words)), reason)))


def _reason(score: Score) -> str:
    """Return the failed items of an explanation, or its reason in one line."""
    failed = "\n".join(failed_items(score.explanation))
    return failed[:_REASON_CHARS] or one_line(score.explanation, _REASON_CHARS, content=True) or ""
