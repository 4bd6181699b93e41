"""Faults of an endpoint and of a model's replies."""

from __future__ import annotations

import json
import random
from collections.abc import Mapping
from dataclasses import dataclass
from enum import StrEnum
from typing import Any

from tests.support.servers.corruptions import corrupted


class FaultKind(StrEnum):
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
    ONLY_PROSE = "only_prose"
    MISSING = "missing"
    DOUBLED = "doubled"
    RENUMBERED = "renumbered"
    WRONG_TYPES = "wrong_types"
    OUT_OF_RANGE = "out_of_range"


HTTP_FAULTS = tuple(FaultKind)[:5]


@dataclass(frozen=True, slots=True, kw_only=True)
class Fault:
    kind: FaultKind
    calls: frozenset[int] | None = None
    rate: float = 1.0
    retry_after: str | None = None

    def hits(self, call: int) -> bool:
        if self.calls is not None and call not in self.calls:
            return False
        return random.Random(f"{self.kind}:{call}").random() < self.rate


_NAMES = ("drop", "double", "renumber", "wrong types", "out of range")
_CORRUPTIONS = dict(zip(tuple(FaultKind)[-5:], _NAMES, strict=True))


def spoiled(kind: FaultKind, reply: dict[str, Any]) -> str:
    if kind in _CORRUPTIONS:
        return corrupted(_CORRUPTIONS[kind], reply, random.Random(7))
    text = json.dumps(reply, ensure_ascii=False)
    prose = "All 3 claims are supported, I would rate it 85 of 100."
    texts = {"empty": "", "length": text[: len(text) // 2], "only_prose": prose}
    return texts.get(kind, text)


def spoiled_vectors(kind: FaultKind, rows: list[dict[str, Any]]) -> list[dict[str, Any]]:
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
