"""Odd values that steps put out beside documents lose no event."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any, TypedDict

import pytest
from langchain_core.documents import Document
from langchain_core.runnables import RunnableLambda
from pydantic import RootModel

from tests.matrix.langchain.compat import GRAPHS_MISSING
from tests.matrix.langchain.kit import Chat
from tests.matrix.world import World
from tests.support.langchain_requests import config, line, only, texts
from tests.support.variation import Variation, seeds

pytestmark = pytest.mark.skipif(GRAPHS_MISSING is not None, reason=str(GRAPHS_MISSING))


def state_of(*keys: str) -> Any:
    """Return a graph's state of these keys."""
    make: Any = TypedDict
    return make("State", dict.fromkeys(keys, Any), total=False)


class Silent:
    """It cannot be written."""

    def __repr__(self) -> str:
        raise RuntimeError("no")


class Rows(RootModel[list[str]]):
    """It is iterated otherwise than a model's fields are."""

    def __iter__(self) -> Any:
        return iter(self.root)


@dataclass
class Lazy:
    """One of its fields is set later."""

    name: str
    cache: str = field(init=False)


class Ambiguous:
    """Like an array: nobody may ask whether it equals a list."""

    def __eq__(self, other: object) -> bool:
        raise ValueError("ambiguous")

    __hash__ = None  # type: ignore[assignment]


def deep(levels: int) -> list[Any]:
    made: list[Any] = []
    for _ in range(levels):
        made = [made]
    return made


def round_about() -> list[Any]:
    made: list[Any] = ["a"]
    made.append(made)
    return made


def family() -> dict[str, Any]:
    """Return a parent of many children, each of which holds its parent several times."""
    parent: dict[str, Any] = {"children": []}
    parent["children"] += [{"up": parent, "also": [parent, parent]} for _ in range(9)]
    return parent


ODD: dict[str, Callable[[Variation], Any]] = {
    "a row that cannot be written": lambda draw: [{"a": Silent(), "b": draw.name()}],
    "keys that are numbers": lambda draw: [{1: draw.name(), 2: draw.name()}],
    "a model of another form": lambda draw: [Rows([draw.name()])],
    "a field that is not set": lambda draw: [Lazy(draw.name())],
    "a number of many digits": lambda draw: [{"n": 10**5000, "name": draw.name()}],
    "a list in itself": lambda draw: round_about(),
    "children that hold their parent": lambda draw: [family()],
    "a deep list": lambda draw: deep(3000),
    "a deep text": lambda draw: "[" * 3000 + "]" * 3000,
    "an array": lambda draw: Ambiguous(),
    "vectors": lambda draw: [[0.5] * 300 for _ in range(300)],
    "nothing": lambda draw: [],
}


@pytest.mark.parametrize("seed", seeds(2))
@pytest.mark.parametrize("kind", ODD)
def test_odd_values_lose_neither_event_nor_documents(world: World, kind: str, seed: int) -> None:
    """No incident, nothing missing: the documents beside them are the contexts."""
    draw = Variation(seed)
    documents, question, answer = draw.passages(2), draw.question(), draw.sentence()
    asked, found, odd, said = (draw.name() for _ in range(4))
    state = state_of(asked, found, odd, said)
    in_one = draw.chance.random() < 0.5

    def search(given: Any) -> dict[str, Any]:
        value = {odd: ODD[kind](draw)} if in_one else {}
        return {found: [Document(text) for text in documents], **value}

    def other(given: Any) -> dict[str, Any]:
        # As the input of a step as well.
        value = ODD[kind](draw)
        RunnableLambda(lambda _: "ok").invoke(value)
        return {odd: value}

    def tell(given: Any) -> dict[str, Any]:
        prompt = "\n".join([*(one.page_content for one in given[found]), given[asked]])
        return {said: Chat(reply=lambda _: answer).invoke(prompt).content}

    nodes = [search, tell] if in_one else [search, other, tell]
    line(state, nodes).invoke({asked: question}, config(world))
    sample = only(world)
    assert (texts(sample), sample.answer, sample.truncated) == (documents, answer, ())
