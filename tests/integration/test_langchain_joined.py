"""Texts of a search that a node of a graph joins to one text, under keys that mean nothing."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import pytest

from rag_eval_hooks import Sample
from tests.matrix.langchain.compat import GRAPHS_MISSING
from tests.matrix.langchain.kit import Chat
from tests.matrix.world import World
from tests.support.langchain_requests import config, line, only, texts
from tests.support.variation import Variation, seeds

pytestmark = pytest.mark.skipif(GRAPHS_MISSING is not None, reason=str(GRAPHS_MISSING))
varied = pytest.mark.parametrize("seed", seeds(6))


def ask(world: World, drawn: Variation, found: Sequence[list[str]], shown: str) -> Sample:
    """Ask a graph that searches by a node for each list, shows one text and answers."""
    asked, said, joined = drawn.name(), drawn.name(), drawn.chance.choice([drawn.name(), "context"])
    question, reply = drawn.question(), drawn.short()
    names = [drawn.name() for _ in found]

    def searching(name: str, passages: list[str]) -> Any:
        return lambda state: {**state, name: passages}

    def answer(state: dict[str, Any]) -> dict[str, Any]:
        prompt = f"Use {state[joined]}\n{state[asked]}"
        return {**state, said: Chat(reply=lambda _: reply).invoke(prompt).content}

    nodes = [searching(*one) for one in zip(names, found, strict=True)]
    graph = line(dict, [*nodes, lambda state: {**state, joined: shown}, answer])
    graph.invoke({asked: question}, config(world))
    sample = only(world)
    assert (sample.question, sample.answer) == (question, reply)
    return sample


@varied
@pytest.mark.parametrize("heading", [True, False])
def test_each_text_that_a_node_joined_is_a_context(world: World, heading: bool, seed: int) -> None:
    """Bare or under headings, of one search or several: one context for each, in their order."""
    drawn = Variation(seed)
    passages = drawn.passages(4)
    over = [f"[{n}] {drawn.name()}: " if heading else "" for n in range(4)]
    kept = drawn.chance.sample(range(4), 3)
    searches = drawn.chance.choice([[passages], [passages[:2], passages[2:]]])
    shown = "\n\n".join(over[n] + passages[n] for n in kept)
    sample = ask(world, drawn, searches, shown)
    assert texts(sample) == [passages[n] for n in kept]


@varied
@pytest.mark.parametrize("count", [2, 3])
def test_a_text_with_more_in_it_than_was_found_is_the_context(
    world: World, count: int, seed: int
) -> None:
    """A node that adds a passage, or widens the one that was found, is the stage that counts."""
    drawn = Variation(seed)
    *passages, added = sorted(drawn.passages(count + 1), key=len)
    shown = "\n\n".join([*passages, added])
    assert texts(ask(world, drawn, [passages], shown)) == [shown]


@varied
def test_passages_that_a_node_merged_of_shorter_texts_are_the_contexts(
    world: World, seed: int
) -> None:
    """Several texts made of those of an earlier stage are a stage of their own."""
    drawn = Variation(seed)
    parts = drawn.passages(4)
    merged = [" ".join(parts[:2]), " ".join(parts[2:])]
    assert texts(ask(world, drawn, [parts, merged], "\n\n".join(merged))) == merged
