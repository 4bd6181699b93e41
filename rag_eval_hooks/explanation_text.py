"""Formats explanations of scores: as bounded JSON for telemetry, as lines for people."""

from __future__ import annotations

import html
import json
import math
import textwrap
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from typing import Any, Final, NamedTuple

from rag_eval_hooks.encodable import encodable
from rag_eval_hooks.errors import InputError, NoOutcome, unknown
from rag_eval_hooks.score import Outcome, Score

__all__ = [
    "GOOD",
    "OutcomeTable",
    "explain",
    "failed_items",
    "html_table",
    "one_line",
    "outcome_lines",
    "prose",
]

_DEPTH: Final = 6
_ROUNDS: Final = ((1.0, 1000), (0.1, 50), (0.03, 20), (0.01, 5))
"""Forms of an explanation, longest first.

A form is a fraction of the text limit, and a list length.
"""
_DROPPED: Final = object()
_CUT: Final = " [...]"
_NAMED: Final = 3
"""Maximum number of failed items in one line."""


class _Verdicts(NamedTuple):
    key: str
    name: str
    items: Sequence[Mapping[str, Any]]


def explain(value: Mapping[str, Any], limit: int, *, content: bool) -> str | None:
    """Return an explanation as JSON of at most `limit` characters, or None if empty.

    A longer explanation is shortened and marked with `"cut": true`. Without `content`, only numbers
    and booleans remain.
    """
    for number, (share, items) in enumerate(_ROUNDS):
        plain = _form(value, int(limit * share) if content else None, items, _DEPTH)
        if not plain or plain is _DROPPED:
            return None
        if number:
            plain["cut"] = True
        text = json.dumps(plain, ensure_ascii=False, allow_nan=False)
        if len(text) <= limit:
            return text
    return '{"cut": true}' if limit >= len('{"cut": true}') else None


def _form(value: Any, chars: int | None, items: int, depth: int) -> Any:
    """Convert to plain types.

    Cut texts to `chars` characters, or remove texts if `chars` is None.
    """
    # By exact type first: checks of abstract classes would take most of the time.
    kind = type(value)
    if value is None or kind is bool or kind is int:
        return value
    if kind is dict or isinstance(value, Mapping):
        forms = {str(k): _form(v, chars, items, depth - 1) for k, v in value.items() if depth}
        kept = [(key, form) for key, form in forms.items() if form is not _DROPPED]
        return dict(kept[:items]) if depth else _DROPPED
    if kind is list or isinstance(value, list | tuple | set | frozenset):
        listed = [_form(v, chars, items, depth - 1) for v in list(value)[:items] if depth]
        left = [form for form in listed if form is not _DROPPED]
        return left if depth and (left or not listed) else _DROPPED
    if isinstance(value, float):
        return float(value) if math.isfinite(value) else None
    if isinstance(value, int):
        return int(value)
    # A text that cannot be encoded would make the exporter lose the whole batch.
    return _DROPPED if chars is None else encodable(str(value)[:chars])


def prose(explanation: Mapping[str, Any], limit: int, *, content: bool) -> str | None:
    """Return an explanation as lines of text, failed verdicts first, or None if empty.

    Text beyond `limit` characters is replaced by `[...]`. Without `content`, the result is JSON.
    """
    if not content:
        return explain(explanation, limit, content=False)
    lists = {one.key: one for one in _verdicts(explanation)}
    lines: list[str] = []
    for key, value in explanation.items():
        if key in lists:
            _, name, items = lists[key]
            failed_first = sorted(items, key=lambda item: bool(item[name]))
            good = sum(bool(item[name]) for item in items)
            lines.append(f"{key}: {good} of {len(items)} are {name}")
            lines += [_line(item, name) for item in failed_first]
        else:
            is_text = isinstance(value, str)
            told = value if is_text else json.dumps(value, ensure_ascii=False, default=str)
            lines.append(f"{key}: {told}")
    return _fit("\n".join(lines), limit) or None


def failed_items(explanation: Mapping[str, Any]) -> list[str]:
    return [
        _line(item, name)
        for _, name, items in _verdicts(explanation)
        for item in items
        if not item[name]
    ]


def one_line(explanation: Mapping[str, Any], limit: int, *, content: bool) -> str | None:
    """Return the first failures in one line, such as `1 of 3 claims are unsupported: claim 2`.

    Returns None without a verdict or a usable reason. Reasons quote texts and need `content`.
    """
    if (first := next(_verdicts(explanation), None)) is not None:
        told = _counted(first, content=content)
    else:
        reason = explanation.get("reason")
        told = reason if content and isinstance(reason, str) else ""
    return _fit(" ".join(told.split()), limit) if told else None


def _counted(verdicts: _Verdicts, *, content: bool) -> str:
    key, name, items = verdicts
    # Scores do not count unsure items either.
    sure = {n: item for n, item in enumerate(items, start=1) if item[name] is not None}
    bad = [number for number, item in sure.items() if not item[name]]
    if not bad:
        return f"{len(sure)} of {len(sure)} {key} are {name}"
    negated = "unsupported" if name == "supported" else f"not {name}"
    count = f"{len(bad)} of {len(sure)} {key} are {negated}"
    if content:
        return f"{count}: {sure[bad[0]].get('reason') or _subject(sure[bad[0]])}"
    named = ", ".join(f"{key.removesuffix('s')} {number}" for number in bad[:_NAMED])
    return f"{count}: {named}{', ...' if len(bad) > _NAMED else ''}"


def _verdicts(explanation: Mapping[str, Any]) -> Iterator[_Verdicts]:
    for key, items in explanation.items():
        if not isinstance(items, list | tuple) or not items:
            continue
        if all(isinstance(item, Mapping) and _subject(item) is not None for item in items):
            names = (name for name in items[0] if _is_verdict(name, items))
            if (name := next(names, None)) is not None:
                yield _Verdicts(key, str(name), items)


def _is_verdict(name: str, items: Sequence[Mapping[str, Any]]) -> bool:
    values = [item.get(name, "") for item in items]
    # A word distinguishes unsure verdicts from missing values.
    is_known = any(value is not None for value in values) or "verdict" in items[0]
    return is_known and all(value is None or isinstance(value, bool) for value in values)


def _subject(item: Mapping[str, Any]) -> str | None:
    name, value = next(iter(item.items()), (None, None))
    if isinstance(value, str):
        return value
    return f"{name} {value}" if isinstance(value, int) and not isinstance(value, bool) else None


def _line(item: Mapping[str, Any], name: str) -> str:
    label = name if item[name] else "unsure" if item[name] is None else f"not {name}"
    if isinstance(word := item.get("verdict"), str):
        label = word.replace("_", " ")
    reason = item.get("reason")
    return f"- {label}: {_subject(item)}" + (f" ({reason})" if reason else "")


def _fit(text: str, limit: int) -> str:
    text = encodable(text)
    return text if len(text) <= limit else text[: max(0, limit - len(_CUT))] + _CUT[:limit]


GOOD: Final = 0.8
"""Minimum normalized value of a score that is shown without a reason."""
_REASON_CHARS: Final = 1000


class OutcomeTable(dict[str, Outcome]):
    """Maps metrics to outcomes and displays them as a table in notebooks and terminals."""

    def __missing__(self, name: object) -> Outcome:
        raise NoOutcome(name, unknown("There is no outcome of", name, list(self)))

    def __getattr__(self, name: str) -> Any:
        one = next(iter(self), "ragas.faithfulness")
        raise AttributeError(f"Outcomes have no {name!r}. Write: outcomes[{one!r}].value")

    def __await__(self) -> Any:
        told = "evaluate() and assert_scores() are no coroutines: remove await"
        raise InputError(f"{told}. Write: await evals.aevaluate(...) in async code")

    def __repr__(self) -> str:
        return "\n".join(text for text, _ in outcome_lines(self)) or "{}"

    def _repr_html_(self) -> str:
        return html_table(_cells(name, outcome) for name, outcome in _worst_first(self))


def outcome_lines(
    outcomes: Mapping[str, Outcome], failed: Collection[str] = ()
) -> Iterator[tuple[str, Outcome]]:
    """Yield one text per outcome: value, name, label and reason. Start with `failed`."""
    for name, outcome in sorted(_worst_first(outcomes), key=lambda item: item[0] not in failed):
        _, value, label, reason = _cells(name, outcome)
        note = f"  ({label})" if label else ""
        below = f"\n{textwrap.indent(reason, ' ' * 10)}" if reason else ""
        yield f"  {value:>6}  {name}{note}{below}", outcome


def html_table(rows: Iterable[Sequence[object]]) -> str:
    return f"<table>{''.join(map(_row, rows))}</table>"


def _row(cells: Sequence[object]) -> str:
    first, *others = (html.escape(str(cell)).replace("\n", "<br>") for cell in cells)
    columns = "".join(f'<td style="text-align:left">{cell}</td>' for cell in others)
    return f'<tr><th style="text-align:left">{first}</th>{columns}</tr>'


def _worst_first(outcomes: Mapping[str, Outcome]) -> list[tuple[str, Outcome]]:
    return sorted(outcomes.items(), key=lambda item: _rank(item[1]))


def _rank(outcome: Outcome) -> float:
    if isinstance(outcome, Score):
        return outcome.normalized
    if outcome.risk is not None:
        return -outcome.risk
    return -1.0 if outcome.undecided else 2.0


def _cells(name: str, outcome: Outcome) -> tuple[str, ...]:
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
    failed = "\n".join(failed_items(score.explanation))
    return failed[:_REASON_CHARS] or one_line(score.explanation, _REASON_CHARS, content=True) or ""
