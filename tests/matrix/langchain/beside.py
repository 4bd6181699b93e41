"""Steps that find something beside the documents, and steps that only instruct the model."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

from langchain_core.output_parsers import StrOutputParser
from langchain_core.prompts import ChatPromptTemplate
from langchain_core.runnables import RunnableLambda, RunnablePassthrough

from tests.matrix.langchain import kit
from tests.matrix.langchain.compat import GRAPHS_MISSING
from tests.matrix.langchain.tutorials import graph_of
from tests.matrix.shape import Shape
from tests.support.step_texts import FORMS, StepText, beside, step_text
from tests.support.variation import Variation, run_seed

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
        prompt = f"{in_order(kit.joined(state[kit.FOUND]), one.written)}\n-- {state[kit.ASKED]}"
        return {kit.SAID: kit.message_text(kit.Chat(reply=lambda _: said).invoke(prompt))}

    return tell


def search(state: Any) -> dict[str, Any]:
    return {kit.FOUND: kit.store().similarity_search(state[kit.ASKED], k=2)}


def in_steps(one: StepText, said: str) -> Callable[[], Any]:
    """One step searches, another one finds something, in either order."""
    steps = [(ONE, search), (TWO, lambda state: {kit.SHOWN: one.value})]
    DRAWN.chance.shuffle(steps)
    return lambda: graph_of(
        (kit.ASKED, kit.FOUND, kit.SHOWN, kit.SAID), *steps, (THREE, telling(one, said))
    )


def in_one_step(one: StepText, said: str) -> Callable[[], Any]:

    def both(state: Any) -> dict[str, Any]:
        return {**search(state), kit.SHOWN: one.value}

    return lambda: graph_of(
        (kit.ASKED, kit.FOUND, kit.SHOWN, kit.SAID), (ONE, both), (TWO, telling(one, said))
    )


def in_a_chain(one: StepText, said: str) -> Callable[[], Any]:
    """A mapping of steps before a prompt, which writes a value as `str` does."""

    def build() -> Any:
        found = kit.base() | kit.joined
        inputs: Any = {
            kit.FOUND: found,
            kit.SHOWN: RunnableLambda(lambda _: one.value),
            kit.ASKED: RunnablePassthrough(),
        }
        template = in_order(f"{{{kit.FOUND}}}", f"{{{kit.SHOWN}}}") + f"\n-- {{{kit.ASKED}}}"
        model = kit.Chat(reply=lambda _: said)
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
        return [*one.shown, *kit.top(question)] if IS_FIRST else [*kit.top(question), *one.shown]

    return kit.shape(
        GROUP,
        name,
        build(one, said),
        contexts=contexts,
        answer=lambda _: said,
        spans=spans[:1] if is_graph else spans,
        ways=kit.GRAPH_WAYS if is_graph else kit.CHAIN_WAYS,
        inputs=(lambda question: {kit.ASKED: question}) if is_graph else str,
        missing=GRAPHS_MISSING if is_graph else None,
    )


def cases() -> Iterator[tuple[str, StepText, str]]:
    for form in FORMS:
        one = step_text(DRAWN, form)
        yield form, one, one.answer(DRAWN)
    for name, one in beside(DRAWN).items():
        yield f"{name} (none)", one, DRAWN.sentence()


SHAPES = tuple(made(number, *case) for number, case in enumerate(cases()))
