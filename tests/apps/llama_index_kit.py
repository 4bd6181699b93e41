"""A scripted model, an index, and applications of LlamaIndex packages as shapes of a matrix."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

from llama_index.core import VectorStoreIndex
from llama_index.core.base.llms.types import ChatMessage

from tests.apps.texts import Texts
from tests.matrix.llama_index.kit import ASYNC, CALL, Scripted, index, prompt_text, top, traced
from tests.matrix.shape import Expected, Shape
from tests.matrix.world import World


@dataclass(frozen=True)
class Asked:
    """An engine or agent, one question, and what is right by construction."""

    engine: Any
    question: str | None
    contexts: Sequence[str] | Callable[[], Sequence[str]] = ()
    answer: str | None = None


def app(
    group: str, name: str, make: Callable[[Texts], Asked], seed: int, ways: Sequence[str]
) -> Shape:
    """Return an application as a shape, made anew for every call."""
    done: dict[str, Asked] = {}

    def body(world: World, way: str) -> None:
        asked = done[way] = make(Texts(seed))
        if way not in CALL:
            asked.engine()
            return
        assert asked.question is not None
        called = CALL[way](asked.engine, asked.question)
        if way in ASYNC:
            asyncio.get_event_loop().run_until_complete(called)

    def expected(way: str) -> list[Expected]:
        a = done[way]
        if a.question is None:
            return []
        shown = a.contexts() if callable(a.contexts) else a.contexts
        return [Expected(question=a.question, contexts=shown, answer=a.answer, spans=None)]

    return Shape(group=group, name=name, ways=ways, run=traced(body), expected=expected)


def model(*replies: tuple[str, str], default: str = "") -> Scripted:
    """A model that gives the reply of the first marker in its prompt, else the default."""

    def reply(messages: Sequence[ChatMessage]) -> str:
        prompt = prompt_text(messages)
        return next((said for marker, said in replies if marker in prompt), default)

    return Scripted(reply=reply)


def steps(*said: ChatMessage | str) -> Scripted:
    """A model that says one thing after another, by the replies that its prompt shows."""

    def reply(messages: Sequence[ChatMessage]) -> ChatMessage | str:
        done = sum(message.role.value == "assistant" for message in messages)
        return said[min(done, len(said) - 1)]

    return Scripted(reply=reply)


def over(texts: Texts) -> VectorStoreIndex:
    return index(tuple(texts.sheets))


def best(texts: Texts, question: str, k: int = 2) -> list[str]:
    return top(question, k, tuple(texts.sheets))
