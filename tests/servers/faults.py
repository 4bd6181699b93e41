"""Faults of an endpoint and of a model's replies."""

from __future__ import annotations

import json
import random
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from enum import StrEnum
from typing import Any

__all__ = ["HTTP_FAULTS", "REPLY_FAULTS", "Fault", "FaultKind", "spoiled", "spoiled_vectors"]


class FaultKind(StrEnum):
    """Every fault that the server can show."""

    RATE_LIMIT = "rate_limit"
    SERVER_ERROR = "server_error"
    HANG = "hang"
    DROP = "drop"
    CUT_BODY = "cut_body"
    """The HTTP reply itself is no JSON."""
    REFUSAL = "refusal"
    LENGTH = "length"
    """The reply stops at the token limit, and says so."""
    EMPTY = "empty"
    CUT_JSON = "cut_json"
    """The reply stops in the middle without saying so."""
    PROSE = "prose"
    FENCE = "fence"
    ONLY_PROSE = "only_prose"
    SECOND_JSON = "second_json"
    """The reply also repeats a JSON object from the data, with verdicts in it."""
    MISSING = "missing"
    DOUBLED = "doubled"
    REORDERED = "reordered"
    RENUMBERED = "renumbered"
    WRONG_TYPES = "wrong_types"
    OUT_OF_RANGE = "out_of_range"
    NAN = "nan"
    DUPLICATE_KEY = "duplicate_key"


HTTP_FAULTS = (
    FaultKind.RATE_LIMIT,
    FaultKind.SERVER_ERROR,
    FaultKind.HANG,
    FaultKind.DROP,
    FaultKind.CUT_BODY,
)
REPLY_FAULTS = tuple(kind for kind in FaultKind if kind not in HTTP_FAULTS)


@dataclass(frozen=True, slots=True, kw_only=True)
class Fault:
    """When a fault shows.

    Attributes:
        kind: What goes wrong.
        calls: Numbers of the requests that it hits, counted from 1; None for any.
        rate: Share of those that it hits, drawn by the request's number: the same every run.
        retry_after: Header of a 429 or a 500, in seconds or as an HTTP date.
    """

    kind: FaultKind
    calls: frozenset[int] | None = None
    rate: float = 1.0
    retry_after: str | None = None

    def hits(self, call: int) -> bool:
        """Whether the fault shows at this request."""
        if self.calls is not None and call not in self.calls:
            return False
        return random.Random(f"{self.kind}:{call}").random() < self.rate


Reply = dict[str, Any]


def spoiled(kind: FaultKind, reply: Reply) -> str:
    """The text of a reply with this fault."""
    text = json.dumps(reply, ensure_ascii=False)
    if kind in _TEXT_FAULTS:
        return _TEXT_FAULTS[kind](text)
    if kind in _ELEMENT_FAULTS:
        return json.dumps({name: _ELEMENT_FAULTS[kind](group) for name, group in reply.items()})
    return text


def spoiled_vectors(kind: FaultKind, rows: list[dict[str, Any]]) -> list[dict[str, Any]]:
    """The rows of an embedding reply with this fault, where it means something for them."""
    first, rest = rows[0], rows[1:]
    changed: Mapping[FaultKind, list[dict[str, Any]]] = {
        FaultKind.EMPTY: [],
        FaultKind.MISSING: rest,
        FaultKind.DOUBLED: [first, *rows],
        FaultKind.RENUMBERED: [{**row, "index": row["index"] + 1} for row in rows],
        FaultKind.WRONG_TYPES: [{**first, "embedding": ["0.5"]}, *rest],
        FaultKind.OUT_OF_RANGE: [{**first, "embedding": first["embedding"][1:]}, *rest],
    }
    return changed.get(kind, rows)


def _second(text: str) -> str:
    return text + "\n" + text.replace("true", "false")


_TEXT_FAULTS: Mapping[FaultKind, Callable[[str], str]] = {
    FaultKind.EMPTY: lambda _text: "",
    FaultKind.LENGTH: lambda text: text[: len(text) // 2],
    FaultKind.CUT_JSON: lambda text: text[: len(text) * 2 // 3],
    FaultKind.PROSE: lambda text: f"Sure, here are my verdicts.\n{text}\nTell me if you need more.",
    FaultKind.FENCE: lambda text: f"```json\n{text}\n```",
    FaultKind.ONLY_PROSE: lambda _text: "All 3 claims are supported, I would rate it 85 of 100.",
    FaultKind.SECOND_JSON: _second,
    FaultKind.NAN: lambda text: text[:-1] + ', "confidence": NaN}',
    FaultKind.DUPLICATE_KEY: lambda text: text[:-1] + ", " + text[1:],
}


def _items(group: Any) -> list[Any]:
    """The elements of a group; a rating is its own only element."""
    if isinstance(group, dict) and "items" in group:
        return list(group["items"])
    return list(group) if isinstance(group, list) else [group]


def _rebuilt(group: Any, items: list[Any]) -> Any:
    if isinstance(group, dict) and "items" in group:
        return {**group, "items": items}
    return items if isinstance(group, list) else next(iter(items), None)


def _missing(group: Any) -> Any:
    return _rebuilt(group, _items(group)[:-1])


def _doubled(group: Any) -> Any:
    items = _items(group)
    return _rebuilt(group, items + [_contrary(item) for item in items[:1]])


def _reordered(group: Any) -> Any:
    return _rebuilt(group, _items(group)[::-1])


def _renumbered(group: Any) -> Any:
    """Every element speaks of the next item, as when a model counts from another start."""
    return _rebuilt(group, [_next_number(item) for item in _items(group)])


def _wrong_types(group: Any) -> Any:
    return _rebuilt(group, [_retyped(item) for item in _items(group)])


def _out_of_range(group: Any) -> Any:
    return _rebuilt(group, [_excessive(item) for item in _items(group)])


def _contrary(item: Any) -> Any:
    if not isinstance(item, dict):
        return item
    return {key: not value if isinstance(value, bool) else value for key, value in item.items()}


def _next_number(item: Any) -> Any:
    if not isinstance(item, dict):
        return item
    changed = dict(item)
    for key in ("n", "chunk", "sentence"):
        if key in item:
            changed[key] = item[key] + 1
    if "id" in item:
        digits = item["id"][1:]
        changed["id"] = f"{item['id'][0]}{int(digits) + 1}" if digits.isdigit() else "r1"
    return changed


def _retyped(item: Any) -> Any:
    if not isinstance(item, dict):
        return str(item)
    words = {True: "yes", False: "no"}
    changed = {
        key: words[value] if isinstance(value, bool) else value for key, value in item.items()
    }
    for key in ("text", "value", "correctness", "verdict", "claims"):
        changed |= {key: [item[key]]} if key in item else {}
    return changed


def _excessive(item: Any) -> Any:
    if not isinstance(item, dict):
        return 850
    changed = dict(item)
    for key in ("rating", "value"):
        changed |= {key: 850} if key in item else {}
    if "correctness" in item:
        changed["correctness"] = {**item["correctness"], "score": 850}
    if "chunks" in item:
        changed["chunks"] = [*item["chunks"], 99]
    for key in ("n", "sentence"):
        changed |= {key: item[key] + 7} if key in item else {}
    if {"found", "verdict", "indistinct"} & set(item):
        changed["id"] = item["id"] + "9"
    return changed


_ELEMENT_FAULTS: Mapping[FaultKind, Callable[[Any], Any]] = {
    FaultKind.MISSING: _missing,
    FaultKind.DOUBLED: _doubled,
    FaultKind.REORDERED: _reordered,
    FaultKind.RENUMBERED: _renumbered,
    FaultKind.WRONG_TYPES: _wrong_types,
    FaultKind.OUT_OF_RANGE: _out_of_range,
}
