"""Contexts are known by where a text came from and where it went, whatever names it bears."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Callable, Iterator, Sequence
from dataclasses import make_dataclass
from importlib import import_module
from typing import Any
from uuid import uuid4

import pytest
from langchain_core.callbacks import BaseCallbackHandler, CallbackManagerForRetrieverRun
from langchain_core.documents import Document
from langchain_core.language_models import FakeListLLM
from langchain_core.messages import AIMessage, BaseMessage, HumanMessage, ToolMessage
from langchain_core.prompts import PromptTemplate
from langchain_core.retrievers import BaseRetriever
from langchain_core.runnables import RunnableLambda
from langchain_core.tools import BaseTool, StructuredTool

from rag_eval_hooks import Sample
from rag_eval_hooks_langchain import RagEvalCallbackHandler
from tests.matrix.langchain.compat import AGENTS_MISSING, GRAPHS_MISSING, agent
from tests.matrix.langchain.kit import Chat, prompt_text
from tests.matrix.world import World
from tests.support.langchain_requests import config, only, texts
from tests.support.variation import Variation, seeds

needs_graphs = pytest.mark.skipif(GRAPHS_MISSING is not None, reason=str(GRAPHS_MISSING))
needs_agents = pytest.mark.skipif(AGENTS_MISSING is not None, reason=str(AGENTS_MISSING))
varied = pytest.mark.parametrize("seed", seeds(6))


@pytest.fixture
def world() -> Iterator[World]:
    made = World()
    yield made
    made.close()


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

    made = import_module("langgraph.graph").StateGraph(dict)
    made.add_node("one", search)
    made.add_node("two", answer)
    made.add_edge("__start__", "one")
    made.add_edge("one", "two")
    made.add_edge("two", "__end__")
    given = {asked: question, drawn.name(): drawn.name()}
    made.compile().invoke(given, config(world))
    sample = only(world)
    assert texts(sample) == [passages[2], passages[0]]
    assert sample.context_source == "step"


def tools_loop(tool: Callable[[str], Any], reply: str, *, wrap: bool) -> Any:
    """A graph that calls its tools by hand, as one writes it from scratch."""
    graphs = import_module("langgraph.graph")
    made = graphs.StateGraph(graphs.MessagesState)

    def call(state: Any) -> Any:
        done = isinstance(state["messages"][-1], ToolMessage)
        picked = AIMessage("", tool_calls=[{"name": "t", "args": {"query": "x"}, "id": "1"}])
        model = Chat(reply=lambda _: reply if done else picked)
        return {"messages": [model.invoke(state["messages"])]}

    def act(state: Any) -> Any:
        found = tool("x")
        text = found if isinstance(found, str) else json.dumps(found, ensure_ascii=wrap)
        return {"messages": [ToolMessage(text, tool_call_id="1")]}

    made.add_node("call", call)
    made.add_node("act", act)
    made.add_edge("__start__", "call")
    made.add_conditional_edges(
        "call", lambda state: "act" if state["messages"][-1].tool_calls else "__end__"
    )
    made.add_edge("act", "call")
    return made.compile()


@needs_graphs
@varied
@pytest.mark.parametrize("wrapped", [True, False])
def test_a_loop_by_hand_shows_its_tools_by_their_messages(
    world: World, wrapped: bool, seed: int
) -> None:
    """A tool that is a plain function, or gives a list, is seen in the new message of its node."""
    drawn = Variation(seed)
    passages, question, reply = drawn.passages(2), drawn.question(), drawn.short()
    found = [{drawn.name(): n, "t" + drawn.name(): text} for n, text in enumerate(passages)]

    def plain(_: str) -> Any:
        return found

    tool = StructuredTool.from_function(lambda query: found, name="t", description="Searches.")
    graph = tools_loop(tool.invoke if wrapped else plain, reply, wrap=seed % 2 == 0)
    graph.invoke({"messages": [HumanMessage(question)]}, config(world))
    sample = only(world)
    assert (sample.question, texts(sample), sample.answer) == (question, passages, reply)


def run_agent(
    world: World, tools: Sequence[BaseTool], calls: Sequence[Any], question: str, reply: str,
    **options: Any,
) -> Sample:  # fmt: skip
    steps = iter(calls)

    def say(messages: list[BaseMessage]) -> Any:
        call = next(steps, None)
        if call is None:
            return reply
        name, arguments = call
        picked = {"name": name, "args": arguments, "id": f"c{len(messages)}"}
        return AIMessage("", tool_calls=[picked])

    made = agent(Chat(reply=say), list(tools))
    made.invoke({"messages": [HumanMessage(question)]}, config(world, **options))
    return only(world)


def search_tool(name: str, found: Callable[[str], Any]) -> BaseTool:
    def search(query: str) -> Any:
        return found(query)

    return StructuredTool.from_function(search, name=name, description="Searches.")


@needs_agents
@varied
@pytest.mark.parametrize("named", [True, False])
def test_a_search_that_asks_a_model_first_is_a_search(world: World, named: bool, seed: int) -> None:
    """A tool that rewrites its query gives retrieved text all the same."""
    drawn = Variation(seed)
    passage, name = drawn.passage(), drawn.name()
    inner, query = Chat(reply=lambda _: drawn.sentence()), drawn.question()

    def found(asked: str) -> str:
        inner.invoke(f"Rewrite: {asked}")
        return passage

    options = {"retrieval_tools": [name]} if named else {}
    calls = [(name, {"query": query})]
    tools = [search_tool(name, found)]
    sample = run_agent(world, tools, calls, drawn.question(), drawn.short(), **options)
    assert texts(sample) == [passage]


class Fixed(BaseRetriever):
    """Returns its documents, whatever is asked."""

    documents: list[Document]

    def _get_relevant_documents(
        self, query: str, *, run_manager: CallbackManagerForRetrieverRun
    ) -> list[Document]:
        return self.documents


@varied
@pytest.mark.parametrize("form", ["rows", "triples"])
def test_rows_that_only_a_steps_input_holds_are_candidates(
    world: World, form: str, seed: int
) -> None:
    """A graph's or a database's rows, found inside a chain, are known by the prompt."""
    drawn = Variation(seed)
    question, reply = drawn.question(), drawn.short()
    key, other = drawn.name(), drawn.name()
    found: Any = [{f"{key}.{other}": drawn.word()} for _ in range(3)]
    if form == "triples":
        found = "\n".join(f"{drawn.word()} {drawn.name()} {drawn.word()}" for _ in range(6))
        reply = found.splitlines()[2]
    prompt = PromptTemplate.from_template("Rows: {context}\nQ: {question}")
    inner = prompt | Chat(reply=lambda _: reply)
    name = "GraphChain"
    outer: Any = RunnableLambda(
        lambda q: inner.invoke({"context": found, "question": q}), name=name
    )
    outer.invoke(question, config(world))
    shown = list(map(repr, found)) if form == "rows" else [found]
    assert texts(only(world)) == shown


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


@varied
def test_objects_of_the_applications_own_are_read_by_its_function(world: World, seed: int) -> None:
    """`as_context` reads what has neither keys nor fields."""
    drawn = Variation(seed)
    passages, reply = drawn.passages(2), drawn.short()

    class Hit:
        __slots__ = ("_text",)

        def __init__(self, text: str) -> None:
            self._text = text

        def read(self) -> str:
            return self._text

    def search(_: str) -> list[Hit]:
        return [Hit(text) for text in passages]

    def joined(hits: list[Hit]) -> str:
        return "\n".join(hit.read() for hit in hits)

    def as_context(value: Any) -> str | None:
        return value.read() if isinstance(value, Hit) else None

    shown: Any = RunnableLambda(search) | RunnableLambda(joined)
    answering = shown | Chat(reply=lambda messages: reply if prompt_text(messages) else "")
    answering.invoke(drawn.question(), config(world, as_context=as_context))
    assert texts(only(world)) == passages


@pytest.mark.parametrize("seed", seeds(5))
def test_cancelled_calls_of_a_bare_model_leave_nothing_open(world: World, seed: int) -> None:
    """LangChain reports no end of them; none is open when the next statistics are asked for."""
    drawn = Variation(seed)

    async def cancel_all() -> None:
        model = Chat(reply=lambda _: "late", delay=60.0)
        prompts = [drawn.sentence(drawn.chance.randint(1, 300)) for _ in range(200)]
        calls = [model.ainvoke(prompt, config(world)) for prompt in prompts]
        tasks = [asyncio.ensure_future(call) for call in calls]
        while model.begun < len(tasks):
            await asyncio.sleep(0.01)
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)

    asyncio.run(cancel_all())
    assert world.evals.stats().offered == 0
    assert world.evals.recorder.opened() == (0, 0)


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


@varied
def test_requests_without_retrieved_text_are_counted_and_explained(world: World, seed: int) -> None:
    """A model that answered alone is no sample, and whoever asks for its run learns why."""
    drawn = Variation(seed)
    plain: Any = RunnableLambda(lambda q: f"Answer: {q}") | Chat(reply=lambda _: drawn.sentence())
    run_id = uuid4()
    plain.invoke(drawn.question(), {**config(world), "run_id": run_id})
    stats = world.evals.stats()
    assert (stats.offered, stats.without_retrieval) == (0, 1)
    (why,) = world.evals.explain(run_id)
    assert why.reason == "without_retrieval"


@varied
def test_a_question_rewritten_before_its_retrieval_logs_no_advice(
    world: World, caplog: pytest.LogCaptureFixture, seed: int
) -> None:
    """A model that is called alone may write the query of a retriever that is called after it."""
    drawn = Variation(seed)
    passages, query, reply = drawn.passages(2), drawn.question(), drawn.sentence()
    retriever = Fixed(documents=[Document(text) for text in passages])
    RagEvalCallbackHandler.enable(world.evals)
    try:
        written = Chat(reply=lambda _: query).invoke(f"Rewrite: {drawn.question()}").content
        world.evals.recorder.sweep()
        found = retriever.invoke(str(written))
        prompt = "\n".join(document.page_content for document in found)
        Chat(reply=lambda _: reply).invoke(f"{prompt}\n{query}")
        assert texts(only(world)) == passages
    finally:
        RagEvalCallbackHandler.disable()
    assert world.evals.stats().without_retrieval == 0
    assert [record.getMessage() for record in caplog.records] == []


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

    made = import_module("langgraph.graph").StateGraph(dict)
    made.add_node("one", answer)
    made.add_edge("__start__", "one")
    made.add_edge("one", "__end__")
    made.compile().invoke(QUESTIONS[form](drawn, asked), config(world))
    sample = only(world)
    assert (sample.question, texts(sample), sample.answer) == (asked, [passage], reply)


def test_a_request_without_a_question_is_counted(world: World) -> None:
    """Without any text that could be the question there is nothing to score."""
    retriever = Fixed(documents=[Document("The ferry to Skarn leaves at 07:40 every day.")])
    chain: Any = RunnableLambda(lambda _: retriever.invoke("")) | RunnableLambda(str)
    (chain | Chat(reply=lambda _: "yes")).invoke(7, config(world))
    stats = world.evals.stats()
    assert (stats.offered, stats.dropped) == (1, {"no_question": 1})
