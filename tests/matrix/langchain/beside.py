"""Steps that find something beside the documents, and steps that only instruct the model."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

from langchain_core.output_parsers import StrOutputParser
from langchain_core.prompts import ChatPromptTemplate
from langchain_core.runnables import RunnableLambda, RunnablePassthrough

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
    message_text,
    shape,
    store,
    top,
)
from tests.matrix.langchain.tutorials import graph_of
from tests.matrix.shape import Shape
from tests.support.step_texts import FORMS, StepText, beside, step_text
from tests.support.variation import Variation, run_seed

__all__ = ["SHAPES"]

GROUP = "beside documents"
DRAWN = Variation(run_seed() + 7)
IS_FIRST = DRAWN.chance.random() < 0.5
"""True if the prompt shows the find of a step before the documents."""
ONE, TWO, THREE = (DRAWN.name() for _ in range(3))


def in_order(documents: str, other: str) -> str:
    return f"{other}\n\n{documents}" if IS_FIRST else f"{documents}\n\n{other}"


def telling(one: StepText, said: str) -> Callable[[Any], dict[str, Any]]:
    """The last step of a graph: a model that is shown both says something."""

    def tell(state: Any) -> dict[str, Any]:
        prompt = f"{in_order(joined(state[FOUND]), one.written)}\n-- {state[ASKED]}"
        return {SAID: message_text(Chat(reply=lambda _: said).invoke(prompt))}

    return tell


def search(state: Any) -> dict[str, Any]:
    return {FOUND: store().similarity_search(state[ASKED], k=2)}


def in_steps(one: StepText, said: str) -> Callable[[], Any]:
    """One step searches, another one finds something, in either order."""
    steps = [(ONE, search), (TWO, lambda state: {SHOWN: one.value})]
    DRAWN.chance.shuffle(steps)
    return lambda: graph_of((ASKED, FOUND, SHOWN, SAID), *steps, (THREE, telling(one, said)))


def in_one_step(one: StepText, said: str) -> Callable[[], Any]:
    """One step finds both."""

    def both(state: Any) -> dict[str, Any]:
        return {**search(state), SHOWN: one.value}

    return lambda: graph_of((ASKED, FOUND, SHOWN, SAID), (ONE, both), (TWO, telling(one, said)))


def in_a_chain(one: StepText, said: str) -> Callable[[], Any]:
    """A mapping of steps before a prompt, which writes a value as `str` does."""

    def build() -> Any:
        found = store().as_retriever(search_kwargs={"k": 2}) | joined
        inputs: Any = {
            FOUND: found,
            SHOWN: RunnableLambda(lambda _: one.value),
            ASKED: RunnablePassthrough(),
        }
        template = in_order(f"{{{FOUND}}}", f"{{{SHOWN}}}") + f"\n-- {{{ASKED}}}"
        model = Chat(reply=lambda _: said)
        return inputs | ChatPromptTemplate.from_template(template) | model | StrOutputParser()

    return build


def made(number: int, name: str, one: StepText, said: str) -> Shape:
    """A shape at a place that the run draws: another one for each of three in a row."""
    builds = [in_steps, in_one_step]
    builds += [in_a_chain] if one.written == str(one.value) else []
    build = builds[(number + run_seed()) % len(builds)]
    is_graph = build is not in_a_chain
    spans = ("chat scripted", "retrieval InMemoryVectorStore")

    def contexts(question: str) -> list[str]:
        return [*one.shown, *top(question)] if IS_FIRST else [*top(question), *one.shown]

    return shape(
        GROUP,
        name,
        build(one, said),
        contexts=contexts,
        answer=lambda _: said,
        spans=spans[:1] if is_graph else spans,
        ways=GRAPH_WAYS if is_graph else CHAIN_WAYS,
        inputs=(lambda question: {ASKED: question}) if is_graph else str,
        missing=GRAPHS_MISSING if is_graph else None,
    )


def cases() -> Iterator[tuple[str, StepText, str]]:
    """Name, what the step puts out, answer."""
    for form in FORMS:
        one = step_text(DRAWN, form)
        yield form, one, one.answer(DRAWN)
    for name, one in beside(DRAWN).items():
        yield f"{name} (none)", one, DRAWN.sentence()


SHAPES = tuple(made(number, *case) for number, case in enumerate(cases()))
