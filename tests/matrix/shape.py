"""A shape: a real pipeline, the ways of calling it, and what must be captured."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field

from rag_eval_hooks import Status
from tests.matrix.world import World


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


@dataclass(frozen=True, kw_only=True)
class Shape:
    """A pipeline shape.

    `write` is what an application writes so that it is captured; `incidents` are those that
    must be counted at an edge meanwhile.
    """

    group: str
    name: str
    ways: Sequence[str]
    run: Callable[[World, str], None]
    expected: Callable[[str], Sequence[Expected]]
    missing: str | None = None
    write: str = ""
    incidents: dict[str, int] = field(default_factory=dict)
