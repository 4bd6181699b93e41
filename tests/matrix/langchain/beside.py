"""Steps that find something beside the documents, and steps that only instruct the model."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from typing import Any

from langchain_core.output_parsers import StrOutputParser
from langchain_core.prompts import ChatPromptTemplate
from langchain_core.runnables import RunnableLambda, RunnablePassthrough

from rag_eval_hooks_langchain.question_answer import message_text
from tests.matrix.langchain.compat import GRAPHS_MISSING
from tests.matrix.langchain.kit import (
    ASKED,
    CHAIN_WAYS,
    FOUND,
    GRAPH_WAYS,
    SAID,
    SHOWN,
    Chat,
    joined,
    shape,
    store,
    top,
)
from tests.matrix.langchain.tutorials import graph_of
from tests.matrix.shape import Shape
from tests.support.step_texts import FORMS, beside, step_text
from tests.support.variation import Variation, run_seed

__all__ = ["SHAPES"]

GROUP = "beside documents"
DRAWN = Variation(run_seed() + 7)
IS_FIRST = DRAWN.chance.random() < 0.5
"""Whether the prompt shows what a step found before the documents."""
ONE, TWO, THREE = (DRAWN.name() for _ in range(3))


def in_order(documents: str, other: str) -> str:
    return f"{other}\n\n{documents}" if IS_FIRST else f"{documents}\n\n{other}"


def telling(said: str) -> Callable[[Any], dict[str, Any]]:
    """The last step of a graph: a model that is shown both says something."""

    def tell(state: Any) -> dict[str, Any]:
        prompt = f"{in_order(joined(state[FOUND]), str(state[SHOWN]))}\n-- {state[ASKED]}"
        return {SAID: message_text(Chat(reply=lambda _: said).invoke(prompt))}

    return tell


def search(state: Any) -> dict[str, Any]:
    return {FOUND: store().similarity_search(state[ASKED], k=2)}


def in_steps(value: Any, said: str) -> Callable[[], Any]:
    """One step searches, another one gives the value, in either order."""
    steps = [(ONE, search), (TWO, lambda state: {SHOWN: value})]
    DRAWN.chance.shuffle(steps)
    return lambda: graph_of((ASKED, FOUND, SHOWN, SAID), *steps, (THREE, telling(said)))


def in_one_step(value: Any, said: str) -> Callable[[], Any]:
    """One step gives both."""

    def both(state: Any) -> dict[str, Any]:
        return {**search(state), SHOWN: value}

    return lambda: graph_of((ASKED, FOUND, SHOWN, SAID), (ONE, both), (TWO, telling(said)))


def in_a_chain(value: Any, said: str) -> Callable[[], Any]:
    """A mapping of steps before a prompt."""

    def build() -> Any:
        found = store().as_retriever(search_kwargs={"k": 2}) | joined
        inputs: Any = {
            FOUND: found,
            SHOWN: RunnableLambda(lambda _: value),
            ASKED: RunnablePassthrough(),
        }
        template = in_order(f"{{{FOUND}}}", f"{{{SHOWN}}}") + f"\n-- {{{ASKED}}}"
        model = Chat(reply=lambda _: said)
        return inputs | ChatPromptTemplate.from_template(template) | model | StrOutputParser()

    return build


BUILDS = [(in_steps, True), (in_one_step, True), (in_a_chain, False)]
"""Places where a value may come from, and whether they are in a graph."""


def made(number: int, name: str, value: Any, shown: Sequence[str], said: str) -> Shape:
    """A shape at a place that the run draws: another one for each of three in a row."""
    build, is_graph = BUILDS[(number + run_seed()) % len(BUILDS)]

    def contexts(question: str) -> list[str]:
        return [*shown, *top(question)] if IS_FIRST else [*top(question), *shown]

    return shape(
        GROUP,
        name,
        build(value, said),
        contexts=contexts,
        answer=lambda _: said,
        spans=("chat scripted",)
        if is_graph
        else ("chat scripted", "retrieval InMemoryVectorStore"),
        ways=GRAPH_WAYS if is_graph else CHAIN_WAYS,
        inputs=(lambda question: {ASKED: question}) if is_graph else str,
        missing=GRAPHS_MISSING if is_graph else None,
    )


def cases() -> Iterator[tuple[str, Any, Sequence[str], str]]:
    """Name, value of the step, its texts that are contexts, answer."""
    for form in FORMS:
        one = step_text(DRAWN, form)
        yield form, one.value, one.shown, one.answer(DRAWN)
    for name, value in beside(DRAWN).items():
        yield f"{name} (none)", value, (), DRAWN.sentence()


SHAPES = tuple(made(number, *case) for number, case in enumerate(cases()))
