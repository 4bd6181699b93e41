"""Steps that a team writes itself: what they parse, wrap, format and leave out."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import pytest
from langchain_core.documents import Document
from langchain_core.messages import AIMessage, BaseMessage, HumanMessage
from langchain_core.output_parsers import StrOutputParser
from langchain_core.prompts import ChatPromptTemplate
from langchain_core.retrievers import BaseRetriever
from langchain_core.runnables import RunnableLambda, RunnablePassthrough
from langchain_core.tools import BaseTool, tool

from tests.matrix.langchain.compat import GRAPHS_MISSING
from tests.matrix.langchain.kit import Chat
from tests.matrix.world import World
from tests.support.langchain_requests import config, only, texts
from tests.support.variation import Variation, seeds

varied = pytest.mark.parametrize("seed", seeds(6))
graphs = pytest.mark.skipif(GRAPHS_MISSING is not None, reason=str(GRAPHS_MISSING))
PROMPT = ChatPromptTemplate.from_template("Use only:\n{context}\n\nQuestion: {question}")


def said(drawn: Variation) -> str:
    return drawn.short() if drawn.chance.random() < 0.5 else drawn.sentence()


def documents(passages: Sequence[str]) -> list[Document]:
    return [Document(text) for text in passages]


def chain(passages: Sequence[str], form: Any, reply: str) -> Any:
    found = RunnableLambda(lambda _: documents(passages)) | form
    given = {"context": found, "question": RunnablePassthrough()}
    return given | PROMPT | Chat(reply=lambda _: reply) | StrOutputParser()


def joined(found: Sequence[Document]) -> str:
    return "\n".join(one.page_content for one in found)


class Empty(BaseRetriever):
    def _get_relevant_documents(self, query: str, *, run_manager: Any) -> list[Document]:
        return []


def ask_once(world: World, search: BaseTool, drawn: Variation, answer: str) -> None:
    """Let a model search once, and answer."""
    picked = {"name": search.name, "args": {"wanted": drawn.word()}, "id": "1", "type": "tool_call"}

    def loop(question: str) -> str:
        asking = Chat(reply=lambda _: AIMessage("", tool_calls=[picked]))
        messages: list[BaseMessage] = [HumanMessage(question)]
        messages += [asking.invoke(messages), search.invoke(picked)]
        return str(Chat(reply=lambda _: answer).invoke(messages).content)

    RunnableLambda(loop).invoke(drawn.question(), config(world))


@varied
def test_the_text_of_a_tool_whose_retriever_found_nothing_is_marked(
    world: World, seed: int
) -> None:
    """It may be a search of the tool's own or a fixed sentence, which nobody can tell."""
    drawn = Variation(seed)
    fixed, answer = drawn.sentence(), said(drawn)

    @tool
    def search(wanted: str) -> str:
        """Search the notes."""
        return joined(Empty().invoke(wanted)) or fixed

    ask_once(world, search, drawn, answer)
    sample = only(world)
    assert (texts(sample), sample.context_source) == ([fixed], "step")


@varied
def test_a_text_made_of_an_empty_list_is_no_context(world: World, seed: int) -> None:
    """A formatter that gets no document writes a fixed sentence: the model was shown none."""
    drawn = Variation(seed)
    fixed = drawn.sentence()

    def scored(found: Sequence[Document]) -> list[Document]:
        return [one for one in found if one.metadata.get("score")]

    form = RunnableLambda(scored) | (lambda found: joined(found) or fixed)
    chain(drawn.passages(3), form, said(drawn)).invoke(drawn.question(), config(world))
    assert texts(only(world)) == []
