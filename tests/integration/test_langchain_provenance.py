"""Contexts are known by where a text came from and where it went, whatever names it bears."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Callable, Sequence
from dataclasses import make_dataclass
from typing import Any

import pytest
from langchain_core.callbacks import BaseCallbackHandler
from langchain_core.documents import Document
from langchain_core.language_models import FakeListLLM
from langchain_core.runnables import RunnableLambda

from rag_eval_hooks_langchain import RagEvalCallbackHandler
from tests.matrix.langchain.compat import AGENTS_MISSING, GRAPHS_MISSING
from tests.matrix.langchain.kit import Chat
from tests.matrix.world import World
from tests.support.langchain_requests import Fixed, config, line, only, texts
from tests.support.variation import Variation, seeds

needs_graphs = pytest.mark.skipif(GRAPHS_MISSING is not None, reason=str(GRAPHS_MISSING))
needs_agents = pytest.mark.skipif(AGENTS_MISSING is not None, reason=str(AGENTS_MISSING))
varied = pytest.mark.parametrize("seed", seeds(6))


def rows(drawn: Variation, passages: Sequence[str]) -> dict[str, Any]:
    """The passages in each of the containers in which search clients return them."""
    name, number = drawn.name(), drawn.name()
    kind = make_dataclass("Chunk", [(name, str), (number, int)])
    named = [{"id": drawn.name(), name: text, number: n} for n, text in enumerate(passages)]
    return {
        "rows": named,
        "objects": [kind(text, n) for n, text in enumerate(passages)],
        "texts": list(passages),
        "nested": {drawn.name(): {drawn.name(): named}},
        "json": json.dumps(named, ensure_ascii=False),
    }


@needs_graphs
@varied
@pytest.mark.parametrize("container", ["rows", "objects", "texts", "nested", "json"])
def test_a_node_may_call_what_it_found_as_it_likes(world: World, container: str, seed: int) -> None:
    """Under any key and in any container, what the prompt shows of it is the context."""
    drawn = Variation(seed)
    passages, question, reply = drawn.passages(3), drawn.question(), drawn.short()
    key, asked, said = drawn.name(), drawn.name(), drawn.name()

    def search(state: dict[str, Any]) -> dict[str, Any]:
        return {**state, key: rows(drawn, passages)[container]}

    def answer(state: dict[str, Any]) -> dict[str, Any]:
        shown = "\n".join([passages[2], passages[0]])
        prompt = f"Use {shown}\n{state[asked]}"
        return {**state, said: Chat(reply=lambda _: reply).invoke(prompt).content}

    given = {asked: question, drawn.name(): drawn.name()}
    line(dict, [search, answer]).invoke(given, config(world))
    sample = only(world)
    assert texts(sample) == [passages[2], passages[0]]
    assert sample.context_source == "step"


@varied
@pytest.mark.parametrize("shape", ["mapping", "list", "number"])
def test_a_retriever_is_asked_anything(world: World, shape: str, seed: int) -> None:
    """A mapping that was given to a retriever in place of a text costs no sample."""
    drawn = Variation(seed)
    passages, question = drawn.passages(2), drawn.question()
    query: Any = {"mapping": {"question": question}, "list": [question], "number": 7}[shape]
    retriever = Fixed(documents=[Document(text) for text in passages])

    def shown(_: str) -> str:
        return f"Use {[d.page_content for d in retriever.invoke(query)]}"

    chain: Any = RunnableLambda(shown)
    (chain | Chat(reply=lambda _: drawn.short())).invoke(question, config(world))
    sample = only(world)
    assert (sample.question, texts(sample)) == (question, passages)


class Watching(BaseCallbackHandler):
    """Another vendor's handler, which counts the starts of models."""

    def __init__(self) -> None:
        self.started = 0

    def on_llm_start(self, *args: Any, **more: Any) -> None:
        """Count."""
        self.started += 1


class InlineWatching(Watching):
    """One that is handled in the event loop."""

    run_inline = True


@pytest.mark.parametrize("kind", [Watching, InlineWatching])
@pytest.mark.parametrize("ours_first", [True, False])
def test_no_handler_misses_a_plain_model(
    world: World, kind: type[Watching], ours_first: bool
) -> None:
    """In async runs of plain models every other handler gets its events, and so does ours."""
    passage = "The ferry to Skarn leaves at 07:40 from the north quay."
    retriever = Fixed(documents=[Document(passage)])
    chain = retriever | RunnableLambda(lambda found: f"Use {found[0].page_content}")
    model = FakeListLLM(responses=["At 07:40."])
    watching = kind()
    handlers = [RagEvalCallbackHandler(world.evals), watching]
    order = handlers if ours_first else handlers[::-1]
    asyncio.run((chain | model).ainvoke("When?", {"callbacks": order}))
    sample = only(world)
    assert watching.started == 1
    assert (texts(sample), sample.context_source) == ([passage], "prompt")


def searching(reply: Any, found: Sequence[str]) -> Any:
    """A chain, whose batch begins its roots in tasks of their own."""
    shown: Any = Fixed(documents=list(map(Document, found))) | RunnableLambda(str)
    return shown | Chat(reply=reply, delay=60.0)


BATCHES: dict[str, Callable[[Any, Sequence[str]], Any]] = {
    "chain": searching,
    "fallback": lambda reply, found: searching(reply, found).with_fallbacks(
        [searching(reply, found)]
    ),
    "plain model": lambda reply, found: FakeListLLM(responses=["late"], sleep=60.0),
    "chat model": lambda reply, found: Chat(reply=reply, delay=60.0),
    "lambda": lambda reply, found: RunnableLambda(searching(reply, found).ainvoke),
}


@pytest.mark.parametrize("kind", BATCHES)
@pytest.mark.parametrize("seed", seeds(2))
def test_batches_cancelled_in_their_first_tick_leave_nothing_open(
    world: World, kind: str, seed: int
) -> None:
    """LangChain reports no end of them: none is open at the next look, while the loop lives on."""
    drawn = Variation(seed)
    chain, told = BATCHES[kind](lambda _: "late", drawn.passages(2)), config(world)
    sizes = [drawn.chance.randint(1, 3) for _ in range(200)]

    async def cancel_all() -> tuple[int, int]:
        began = 0
        for size in sizes:
            task = asyncio.ensure_future(chain.abatch([drawn.question()] * size, told))
            # Its roots begin in the second step of the loop, at the earliest.
            for _ in range(drawn.chance.randint(1, 3)):
                await asyncio.sleep(0)
            began += world.evals.recorder.opened()[0] > 0
            task.cancel()
            await asyncio.gather(task, return_exceptions=True)
        world.evals.stats()
        return began, world.evals.recorder.opened()[0]

    began, left = asyncio.run(cancel_all())
    assert began > 20
    assert left == 0
    assert set(world.evals.stats().dropped) <= {"cancelled"}


QUESTIONS: dict[str, Callable[[Variation, str], Any]] = {
    "under a key of its own": lambda drawn, asked: {drawn.name(): asked},
    "beside ids": lambda drawn, asked: {
        drawn.name(): drawn.name(),
        drawn.name(): asked,
        drawn.name(): "en",
    },
    "nested": lambda drawn, asked: {drawn.name(): {drawn.name(): asked}, "user_id": drawn.name()},
}


@needs_graphs
@varied
@pytest.mark.parametrize("form", QUESTIONS)
@pytest.mark.parametrize("rewritten", [True, False])
def test_the_question_is_the_text_of_the_input_that_was_used(
    world: World, rewritten: bool, form: str, seed: int
) -> None:
    """Under any key, beside other texts: never the rewritten query, never an empty text."""
    drawn = Variation(seed)
    asked, passage, reply = drawn.question(), drawn.passage(), drawn.short()
    query = drawn.question() if rewritten else asked
    retriever = Fixed(documents=[Document(passage)])

    def answer(state: dict[str, Any]) -> dict[str, Any]:
        if rewritten:
            Chat(reply=lambda _: query).invoke(f"Rewrite: {asked}")
        found = retriever.invoke(query)[0].page_content
        said = Chat(reply=lambda _: reply).invoke(f"Use {found}\n{asked}")
        return {**state, drawn.name(): said.content}

    line(dict, [answer]).invoke(QUESTIONS[form](drawn, asked), config(world))
    sample = only(world)
    assert (sample.question, texts(sample), sample.answer) == (asked, [passage], reply)
