"""A shape: a real pipeline, the ways of calling it, and what must be captured."""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from rag_eval_hooks import Status
from tests.matrix.world import World

_WIDE_PARTS = re.compile(r"(?=([\u3400-\u9fff]{3}))")
_DIMENSIONS = 1024
_PLACES: dict[str, int] = {}


@dataclass(frozen=True, kw_only=True)
class Expected:
    """One interaction as it must be captured.

    `contexts` are None without retrieval and empty for an empty one. `spans` are those below the
    RAG span as `<operation> <subject>`, two spaces a level, siblings sorted by name; None where
    they depend on chance.
    """

    question: str
    contexts: Sequence[str] | None
    answer: str | None
    status: Status = Status.OK
    spans: Sequence[str] | None = ()
    any_order: bool = False


@dataclass(frozen=True)
class Shape:
    """A pipeline. `write` is the code that captures it. `incidents` are expected incidents."""

    group: str
    name: str
    ways: Sequence[str]
    run: Callable[[World, str], None]
    expected: Callable[[str], Sequence[Expected]]
    missing: str | None = None
    write: str = ""
    incidents: Mapping[str, int] = field(default_factory=dict)


def named(function: Any) -> str:
    return str(function.__name__).replace("_", " ")


def words(text: str) -> list[str]:
    return re.findall(r"[\u3400-\u9fff]|[^\W\u3400-\u9fff]+", text.lower())


def bag(text: str) -> list[float]:
    """Return a bag of words: deterministic, and near where words, or three wide signs, are shared.

    All values are whole numbers. Equally near texts have equal distances, so the index ranks them.
    """
    vector = [0.0] * _DIMENSIONS
    narrow = [word for word in words(text) if word < "\u3400"]
    for word in [*narrow, *_WIDE_PARTS.findall(text)] or [""]:
        vector[_PLACES.setdefault(word, len(_PLACES) % _DIMENSIONS)] = 1.0
    return vector
