"""An index, a scripted model, and applications of LlamaIndex packages as shapes of a matrix."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from llama_index.core import VectorStoreIndex
from llama_index.core.base.llms.types import ChatMessage

from tests.apps import case
from tests.apps.case import Case
from tests.apps.texts import Texts
from tests.matrix.llama_index.kit import CALL, Scripted, index_of, prompt_text, traced
from tests.matrix.shape import Shape
from tests.matrix.world import World


def app(
    group: str, name: str, make: Callable[[Texts], Case], seed: int, ways: Sequence[str]
) -> Shape:
    return case.app(group, name, make, seed, ways, _call)


def _call(asked: Case, world: World, way: str) -> None:
    def ask() -> Any:
        if asked.ask is not None:
            return asked.ask(None)
        return CALL[way](asked.chain, str(asked.question))

    traced(world, {}, [ask])


def model(*replies: tuple[str, str], default: str = "") -> Scripted:
    """A model that gives the reply of the first marker in its prompt, else the default."""

    def reply(messages: Sequence[ChatMessage]) -> str:
        prompt = prompt_text(messages)
        return next((said for marker, said in replies if marker in prompt), default)

    return Scripted(reply=reply)


def over(texts: Texts) -> VectorStoreIndex:
    return index_of(tuple(texts.sheets))


def best(texts: Texts, question: str, k: int = 2) -> list[str]:
    found = over(texts).as_retriever(similarity_top_k=k).retrieve(question)
    return [node.get_content() for node in found]
