"""Explains a request's outcome, and turns a score's explanation into JSON or text."""

from __future__ import annotations

import json
import math
import textwrap
import tomllib
from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from importlib.resources import files
from typing import Any, Final, TypeAlias

from rag_eval_hooks.score import Outcome, Score

_Items: TypeAlias = Sequence[Mapping[str, Any]]
GOOD: Final = 0.8
_ADVICE: Final[Mapping[str, str]] = tomllib.loads(
    files("rag_eval_hooks").joinpath("advice.toml").read_text("utf-8")
)
_FORMS: Final = ((1.0, 1000), (0.1, 50), (0.03, 20), (0.01, 5))
_DEPTH: Final = 6
_DROPPED: Final = object()
_CUT: Final = " [...]"
_NAMED: Final = 3
_REASON_CHARS: Final = 1000


@dataclass(frozen=True, slots=True, kw_only=True)
class Explanation:
    """The outcome of one request, and the reason. Contains no question, context or answer.

    Attributes:
        key: Trace id. Without a trace, the id of the sample or of the framework's root run.
        outcome: `pending`, `scored`, `sampled_out`, `dropped` or `failed`, as in `Stats`.
        reason: Why the request was dropped or failed, as in `Stats`. For a sampled-out request, the
            rule that set the sample rate: `ratio`, `rule:<name>` or `tail:<name>`.
        absent: For each metric without a score, the cause and its detail.
        sample_id: Id of the evaluated sample, or None without an evaluation.
        probability: Inclusion probability of a sampled-out request, else None.
    """

    key: str
    outcome: str
    reason: str = ""
    absent: Mapping[str, str] = field(default_factory=dict)
    sample_id: str | None = None
    probability: float | None = None

    def __str__(self) -> str:
        chance = "" if self.probability is None else f"probability {self.probability:g}"
        why = ", ".join(filter(None, (self.reason, chance)))
        advice = _ADVICE.get(self.reason) or _ADVICE.get(self.outcome)
        line = f"{self.outcome} ({why})" if why else self.outcome
        missing = "; ".join(f"{name}: {why}" for name, why in self.absent.items())
        return ". ".join(filter(None, (f"{line}: {advice}" if advice else line, missing)))


def explain(value: Mapping[str, Any], limit: int, *, content: bool) -> str | None:
    """Return the explanation as JSON, or None if the explanation is empty or too long.

    Without `content`, the JSON contains no text of the request.
    """
    for number, (share, items) in enumerate(_FORMS):
        plain = _form(value, int(limit * share) if content else None, items, _DEPTH)
        if not plain:
            return None
        if number:
            plain["cut"] = True
        text = json.dumps(plain, ensure_ascii=False, allow_nan=False)
        if len(text) <= limit:
            return text
    return None


def _form(value: Any, chars: int | None, items: int, depth: int) -> Any:
    if isinstance(value, int | None):
        return value
    if isinstance(value, float):
        return value if math.isfinite(value) else None
    if isinstance(value, Mapping) and depth:
        forms = {str(key): _form(one, chars, items, depth - 1) for key, one in value.items()}
        return dict([pair for pair in forms.items() if pair[1] is not _DROPPED][:items])
    if isinstance(value, list | tuple) and depth:
        listed = [_form(one, chars, items, depth - 1) for one in value[:items]]
        return [form for form in listed if form is not _DROPPED] or ([] if not value else _DROPPED)
    if chars is None or isinstance(value, Mapping | list | tuple):
        return _DROPPED
    # If a text cannot be encoded, an exporter drops the whole batch.
    return encodable(str(value)[:chars])


def prose(explanation: Mapping[str, Any], limit: int, *, content: bool) -> str | None:
    if not content:
        return explain(explanation, limit, content=False)
    verdicts = {key: (name, items) for key, name, items in _verdicts(explanation)}
    lines: list[str] = []
    for key, value in explanation.items():
        if key in verdicts:
            name, items = verdicts[key]
            good = sum(bool(item[name]) for item in items)
            lines.append(f"{key}: {good} of {len(items)} are {name}")
            lines += [_line(item, name) for item in sorted(items, key=lambda one: bool(one[name]))]
        else:
            is_text = isinstance(value, str)
            told = value if is_text else json.dumps(value, ensure_ascii=False, default=str)
            lines.append(f"{key}: {told}")
    return _fit("\n".join(lines), limit) or None


def one_line(explanation: Mapping[str, Any], limit: int, *, content: bool) -> str | None:
    """Return the explanation of a score as one line.

    Example: `1 of 3 claims are unsupported: claim 2`.
    """
    told = next((_counted(*one, content=content) for one in _verdicts(explanation)), None)
    if told is None:
        reason = explanation.get("reason")
        told = reason if content and isinstance(reason, str) else ""
    return _fit(" ".join(told.split()), limit) or None


def _counted(key: str, name: str, items: _Items, *, content: bool) -> str:
    # Scores ignore unsure items, too.
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


def _verdicts(explanation: Mapping[str, Any]) -> Iterator[tuple[str, str, _Items]]:
    for key, items in explanation.items():
        if not isinstance(items, list | tuple) or not items:
            continue
        if all(isinstance(item, Mapping) and _subject(item) is not None for item in items):
            names = (name for name in items[0] if _is_verdict(name, items))
            if (name := next(names, None)) is not None:
                yield key, str(name), items


def _is_verdict(name: str, items: _Items) -> bool:
    values = [item.get(name, "") for item in items]
    # If an item has the key `verdict`, None means an unsure verdict, not a missing value.
    is_known = any(value is not None for value in values) or "verdict" in items[0]
    return is_known and all(isinstance(value, bool | None) for value in values)


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


def encodable(text: str) -> str:
    # UTF-8 cannot encode lone surrogates.
    return text if text.isascii() else text.encode("utf-8", "replace").decode("utf-8")


def _fit(text: str, limit: int) -> str:
    text = encodable(text)
    return text if len(text) <= limit else text[: max(0, limit - len(_CUT))] + _CUT[:limit]


class OutcomeTable(dict[str, Outcome]):
    def __repr__(self) -> str:
        return "\n".join(text for text, _ in outcome_lines(self)) or "{}"


def outcome_lines(
    outcomes: Mapping[str, Outcome], failed: Collection[str] = ()
) -> Iterator[tuple[str, Outcome]]:
    ranked = sorted(outcomes.items(), key=lambda item: (item[0] not in failed, _rank(item[1])))
    for name, outcome in ranked:
        value, label, reason = _columns(outcome)
        risk = "" if outcome.risk is None else f"risk {outcome.risk:.2f}"
        note = ", ".join(filter(None, (*label, risk)))
        below = textwrap.indent(f"\n{reason[:_REASON_CHARS]}" if reason else "", " " * 10)
        yield encodable(f"  {value:>6}  {name}{f'  ({note})' if note else ''}{below}"), outcome


def _columns(outcome: Outcome) -> tuple[str, Sequence[str | None], str]:
    verdicts = [(item, name) for _, name, items in _verdicts(outcome.explanation) for item in items]
    failed = [_line(item, name) for item, name in verdicts if not item[name]]
    if not isinstance(outcome, Score):
        label = "undecided" if outcome.undecided else outcome.cause.value
        return "-", (label,), "\n".join([outcome.detail, *failed])
    reason = ""
    if outcome.normalized < GOOD:
        short = one_line(outcome.explanation, _REASON_CHARS, content=True)
        reason = "\n".join(failed) or short or ""
    return f"{outcome.value:.2f}", (outcome.label, "screening" * outcome.screening), reason


def _rank(outcome: Outcome) -> float:
    if isinstance(outcome, Score):
        return outcome.normalized
    if outcome.risk is not None:
        return -outcome.risk
    return -1.0 if outcome.undecided else 2.0
