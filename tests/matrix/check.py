"""Runs a shape in one way and says what is wrong, aspect by aspect."""

from __future__ import annotations

from typing import Any

from tests.matrix.shape import Expected, Shape
from tests.matrix.world import Seen, World


def check(shape: Shape, way: str) -> dict[str, str]:
    """Return the errors by aspect. `books` covers everything except the interactions."""
    world = World()
    try:
        shape.run(world, way)
        seen = world.seen()
        books = world.disorder(shape.incidents)
    finally:
        world.close()
    expected = sorted(shape.expected(way), key=lambda e: (e.question, e.answer or ""))
    wrong = {"books": books} if books else {}
    if len(seen) != len(expected):
        found = [(one.sample.question, one.sample.status.value) for one in seen]
        wrong["books"] = f"interactions: {found}, not {len(expected)}; {books}"
    for due, got in zip(expected, seen, strict=False):
        for aspect, (wanted, captured) in _aspects(due, got).items():
            if wanted != captured:
                wrong.setdefault(aspect, f"{captured!r}, not {wanted!r}")
    return wrong


def _aspects(due: Expected, got: Seen) -> dict[str, tuple[Any, Any]]:
    sample = got.sample
    contexts = None if sample.contexts is None else [c.text for c in sample.contexts]
    wanted = None if due.contexts is None else list(due.contexts)
    if due.any_order and contexts is not None and wanted is not None:
        contexts, wanted = sorted(contexts), sorted(wanted)
    return {
        "question": (due.question, sample.question),
        "contexts": (wanted, contexts),
        "answer": (due.answer, sample.answer),
        "spans": (None, None) if due.spans is None else (tuple(due.spans), got.spans),
        "status": (due.status, sample.status),
    }
