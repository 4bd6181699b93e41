"""Applications of others as shapes: one question, and what is right by construction."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from tests.apps.texts import Texts
from tests.matrix.shape import Expected, Shape
from tests.matrix.world import World


@dataclass(frozen=True)
class Case:
    """One question put to an application; without a question, none may be captured."""

    chain: Any = None
    given: Any = None
    question: str | None = None
    contexts: Sequence[str] | Callable[[], Sequence[str]] = ()
    answer: str | None = None
    config: Mapping[str, Any] = field(default_factory=dict)
    # Asks in its own way; called with the config of LangChain, or None.
    ask: Callable[[Any], Any] | None = None


def app(
    group: str,
    name: str,
    make: Callable[[Texts], Case],
    seed: int,
    ways: Sequence[str],
    call: Callable[[Case, World, str], None],
) -> Shape:
    """Return an application as a shape, made anew for every call."""
    done: dict[str, Case] = {}

    def run(world: World, way: str) -> None:
        done[way] = make(Texts(seed))
        call(done[way], world, way)

    def expected(way: str) -> list[Expected]:
        case = done[way]
        if case.question is None:
            return []
        shown = case.contexts() if callable(case.contexts) else case.contexts
        return [Expected(question=case.question, contexts=shown, answer=case.answer, spans=None)]

    return Shape(group=group, name=name, ways=ways, run=run, expected=expected)
