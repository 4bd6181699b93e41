"""Contexts are known by where a text came from and where it went, whatever names it bears."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Callable, Sequence
from importlib import import_module
from typing import Any, TypedDict

import pytest
from langchain_core.callbacks import BaseCallbackHandler, CallbackManagerForRetrieverRun
from langchain_core.documents import Document
from langchain_core.language_models import FakeListLLM
from langchain_core.messages import AIMessage, BaseMessage, HumanMessage, SystemMessage, ToolMessage
from langchain_core.retrievers import BaseRetriever
from langchain_core.runnables import RunnableLambda
from langchain_core.tools import BaseTool, StructuredTool, tool
from pydantic import BaseModel, create_model

from rag_eval_hooks.capture.documents import DOCUMENT_KEYS
from rag_eval_hooks.config import limits
from rag_eval_hooks_langchain import RagEvalCallbackHandler
from tests.matrix.langchain import graphs
from tests.matrix.langchain.agents import pick
from tests.matrix.langchain.compat import AGENTS_MISSING, GRAPHS_MISSING, agent
from tests.matrix.langchain.kit import (
    ASKED,
    FOUND,
    QUESTION,
    SAID,
    Chat,
    joined,
    top,
)
from tests.matrix.world import World
from tests.support.langchain_requests import Fixed, config, line, only, texts
from tests.support.variation import Variation, seeds

needs_graphs = pytest.mark.skipif(GRAPHS_MISSING is not None, reason=str(GRAPHS_MISSING))
needs_agents = pytest.mark.skipif(AGENTS_MISSING is not None, reason=str(AGENTS_MISSING))
varied = pytest.mark.parametrize("seed", seeds(6))


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


class Masking(BaseRetriever):
    """Masks what another retriever returns; keeps its ids."""

    inner: BaseRetriever
    mask: Callable[[str], str]

    def _get_relevant_documents(
        self, query: str, *, run_manager: CallbackManagerForRetrieverRun
    ) -> list[Document]:
        documents = self.inner.invoke(query, {"callbacks": run_manager.get_child()})
        return [
            Document(self.mask(d.page_content), id=d.id, metadata=d.metadata) for d in documents
        ]


def answering(reply: str) -> Any:
    return RunnableLambda(lambda given: f"Use:\n{given}") | Chat(reply=lambda _: reply)


def by_retriever(documents: Sequence[Document], mask: Callable[[str], str], reply: str) -> Any:
    found = Masking(inner=Fixed(documents=list(documents)), mask=mask)
    return found | RunnableLambda(joined) | answering(reply)


@pytest.mark.parametrize("seed", seeds(5))
def test_masked_text_does_not_come_back(seed: int) -> None:
    """Text that a later step took out is in neither sample, metadata nor spans."""
    drawn = Variation(seed)
    secrets = [drawn.sentence(2) for _ in range(3)]
    texts = [f"{drawn.passage()} {secret} {drawn.passage()}" for secret in secrets]
    documents = [
        Document(text, id=drawn.name(), metadata={"source": drawn.name()}) for text in texts
    ]

    def mask(text: str) -> str:
        for secret in secrets:
            text = text.replace(secret, "<hidden>")
        return text

    world = World(capture_content=True)
    chain = by_retriever(documents, mask, drawn.short())
    chain.invoke(drawn.question(), {"callbacks": [RagEvalCallbackHandler(world.evals)]})
    (seen,) = world.seen()
    assert seen.sample.contexts, "the masked documents are the contexts"
    assert all(context.text in map(mask, texts) for context in seen.sample.contexts)
    written = json.dumps(seen.sample.to_dict(), ensure_ascii=False, default=str)
    spans = str([span.attributes for span in world.exporter.get_finished_spans()])
    for secret in secrets:
        assert secret not in written
        assert secret not in spans
    world.close()


@pytest.mark.parametrize("seed", seeds(5))
@pytest.mark.parametrize("place", ["system", "question"])
def test_quoted_document_of_an_earlier_turn_does_not_count(
    world: World, place: str, seed: int
) -> None:
    """A document that was dropped counts neither whole nor in part for standing in the history."""
    drawn = Variation(seed)
    passages, question = drawn.passages(3), drawn.question()
    quoted = drawn.chance.choice([passages[0], f"{drawn.name()}: {passages[0]}", passages[0][:90]])
    earlier = [HumanMessage(drawn.question()), AIMessage(quoted)]

    def ask(asked: str) -> str:
        found = Fixed(documents=[Document(text) for text in passages]).invoke(asked)
        kept = joined(found[1:])
        last = HumanMessage(asked if place == "system" else f"{kept}\n{asked}")
        first = [SystemMessage(kept)] if place == "system" else []
        return str(Chat(reply=lambda _: drawn.short()).invoke([*first, *earlier, last]).content)

    RunnableLambda(ask).invoke(question, config(world))
    assert texts(only(world)) == passages[1:]


def hits(drawn: Variation, passages: Sequence[str], names: Sequence[str], form: str) -> Any:
    """Return a search client's reply: a bare list of mappings, or a response with fields."""
    key = drawn.chance.choice(["text", "content", drawn.name()])
    rows = [{"id": name, key: text} for name, text in zip(names, passages, strict=True)]
    if form == "rows":
        return rows
    fields: Any = {"id": (str, ...), key: (str, ...)}
    hit: type[BaseModel] = create_model("Hit", **fields)
    answer: Any = {drawn.name(): (list[Any], ...), "total": (int, 2)}
    response: type[BaseModel] = create_model("Response", **answer)
    return response(**{next(iter(answer)): [hit(**row) for row in rows]})


@pytest.mark.skipif(AGENTS_MISSING is not None, reason=str(AGENTS_MISSING))
@pytest.mark.parametrize("seed", seeds(5))
@pytest.mark.parametrize("form", ["rows", "response"])
def test_an_artifact_of_any_form_gives_texts_and_ids(world: World, form: str, seed: int) -> None:
    """Its rows are the contexts, each with its id, and not the tool's whole text."""
    drawn = Variation(seed)
    passages, names = drawn.passages(2), [drawn.name(), drawn.name()]
    artifact, called = hits(drawn, passages, names, form), drawn.name()
    head = drawn.sentence(3)

    def look(query: str) -> Any:
        return "\n".join([head, *passages]), artifact

    tool = StructuredTool.from_function(
        look, name=called, description="Searches.", response_format="content_and_artifact"
    )
    calls = [pick((called, drawn.question())), drawn.short()]
    model = Chat(reply=lambda messages: calls[sum(m.type == "ai" for m in messages)])
    agent(model, [tool]).invoke({"messages": [HumanMessage(drawn.question())]}, config(world))
    found = [(context.id, context.text) for context in only(world).contexts or ()]
    assert found == list(zip(names, passages, strict=True))


def resetting(drawn: Variation, key: str, passages: Sequence[str]) -> Any:
    """A graph on a thread whose first step empties its list; what is no chat is retrieved."""
    make: Any = TypedDict
    fields = {key: list[Any], "question": str, "chat": bool, "answer": str}
    retriever = Fixed(documents=[Document(text) for text in passages])

    def answer(state: dict[str, Any]) -> dict[str, Any]:
        prompt = f"{joined(state[key])}\n{state['question']}"
        return {"answer": Chat(reply=lambda _: drawn.short()).invoke(prompt).content}

    made = import_module("langgraph.graph").StateGraph(make("State", fields))
    reset, search, say = drawn.name(), drawn.name(), drawn.name()
    made.add_node(reset, lambda state: {key: []})
    made.add_node(search, lambda state: {key: retriever.invoke(state["question"])})
    made.add_node(say, answer)
    made.add_edge("__start__", reset)
    made.add_conditional_edges(reset, lambda state: say if state["chat"] else search)
    made.add_edge(search, say)
    made.add_edge(say, "__end__")
    saver = import_module("langgraph.checkpoint.memory").MemorySaver()
    return made.compile(checkpointer=saver)


@pytest.mark.skipif(GRAPHS_MISSING is not None, reason=str(GRAPHS_MISSING))
@pytest.mark.parametrize("seed", seeds(5))
@pytest.mark.parametrize("named", [False, True])
def test_a_step_that_resets_its_list_retrieves_nothing(
    world: World, named: bool, seed: int
) -> None:
    """A list emptied before any retrieval is none, in any turn; under a named key it is one."""
    drawn = Variation(seed)
    passages, key = drawn.passages(2), drawn.chance.choice(DOCUMENT_KEYS)
    graph = resetting(drawn, key, passages)
    settings = config(world, **({"document_keys": [key]} if named else {}))
    settings["configurable"] = {"thread_id": drawn.name()}
    turns = {drawn.question(): chat for chat in (True, False, True, False)}
    for question, chat in turns.items():
        graph.invoke({"question": question, "chat": chat}, settings)
    found = {seen.sample.question: texts(seen.sample) for seen in world.seen()}
    assert found == {q: [] if chat else passages for q, chat in turns.items() if named or not chat}


REPLY = "It leaves at 07:40, as it does on every working day."


@needs_graphs
def test_items_of_a_graphs_store_are_documents(world: World) -> None:
    """A list of items is found by the name of its key, each with its key as id."""
    memory = pytest.importorskip("langgraph.store.memory").InMemoryStore()
    for number, text in enumerate(top(k=2)):
        memory.put(("docs",), f"k{number}", {"text": text})

    def answer(state: Any) -> dict[str, Any]:
        told = "\n".join(item.value["text"] for item in state[FOUND])
        return {SAID: Chat(reply=lambda messages: REPLY).invoke(told).content}

    made = graphs.graph()
    made.add_node("retrieve", lambda state: {FOUND: memory.search(("docs",), limit=2)})
    made.add_node("generate", answer)
    graph = graphs.chained(made, "retrieve", "generate").compile()
    graph.invoke({ASKED: QUESTION}, config(world))
    (seen,) = world.seen()
    assert sorted((c.text, c.id) for c in seen.sample.contexts or ()) == sorted(
        (text, f"k{number}") for number, text in enumerate(top(k=2))
    )


def looking(steps: int) -> tuple[Chat, BaseTool, list[str]]:
    """An agent's model that looks so many times, its tool, and the documents of that."""
    found = [f"Sheet {n} of the timetable, {n * 7} departures are on it." for n in range(steps)]

    @tool(response_format="content_and_artifact")
    def look(query: str) -> tuple[str, Any]:
        """Looks a sheet up."""
        sheet = found[int(query)]
        return sheet, [Document(page_content=sheet)]

    def reply(messages: list[BaseMessage]) -> AIMessage | str:
        done = sum(isinstance(message, ToolMessage) for message in messages)
        return pick(("look", str(done))) if done < steps else REPLY

    return Chat(reply=reply), look, found


@needs_agents
def test_a_long_history_is_held_once(monkeypatch: pytest.MonkeyPatch) -> None:
    """Every call of an agent is given the whole history, which is in memory once."""
    monkeypatch.setattr(limits, "INTERACTION_CHARS", 100_000)
    world = World()
    model, look, found = looking(12)
    history = [HumanMessage("An earlier question. " * 50) for _ in range(40)]
    messages = {"messages": [*history, HumanMessage(QUESTION)]}
    agent(model, [look]).invoke(messages, {**config(world), "recursion_limit": 60})
    (seen,) = world.seen()
    assert texts(seen.sample) == found
    assert seen.sample.truncated == ()
    world.close()
