"""Graphs and applications that others wrote: where their answers, questions and rows stand."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from importlib import import_module
from typing import Annotated, Any, TypedDict
from uuid import uuid4

import pytest
from langchain_core.documents import Document
from langchain_core.messages import BaseMessage, HumanMessage
from langchain_core.output_parsers import StrOutputParser
from langchain_core.prompts import ChatPromptTemplate
from langchain_core.runnables import RunnableLambda
from langchain_core.tools import tool

from rag_eval_hooks import Sample
from rag_eval_hooks_langchain import RagEvalCallbackHandler, disable, enable
from tests.matrix.langchain import graphs
from tests.matrix.langchain.agents import asks, pick, search, stepping
from tests.matrix.langchain.compat import GRAPHS_MISSING, MIDDLEWARE_MISSING, agent
from tests.matrix.langchain.kit import (
    ASKED,
    FOUND,
    PASSAGES,
    QUESTION,
    QUESTIONS,
    Chat,
    store,
    top,
)
from tests.matrix.langchain.lcel import plain
from tests.matrix.world import World
from tests.support.langchain_requests import config, line, texts
from tests.support.variation import Variation, seeds

needs_graphs = pytest.mark.skipif(GRAPHS_MISSING is not None, reason=str(GRAPHS_MISSING))
needs_middleware = pytest.mark.skipif(
    MIDDLEWARE_MISSING is not None, reason=str(MIDDLEWARE_MISSING)
)
OTHER = QUESTIONS[1]


def in_thread(world: World) -> Any:
    return config(world) | {"configurable": {"thread_id": "t1"}}


def samples(world: World) -> list[Sample]:
    return [seen.sample for seen in world.seen()]


def test_tags_and_metadata_are_the_users(world: World) -> None:
    """Keys that frameworks set themselves are left out by their full names, and nothing else."""
    chain = RunnableLambda(str) | plain().with_config(
        callbacks=[RagEvalCallbackHandler(world.evals)],
        tags=["mine", "branch:main", "condition:ok"],
    )
    mine = {"ls_team": "a", "lc_cost": 1, "langgraph_tier": "gold", "checkpoint_age": 3}
    theirs = {"ls_provider": "x", "langgraph_plan": "x"}
    chain.invoke(QUESTION, {"metadata": {**mine, **theirs}})
    (sample,) = samples(world)
    assert set(sample.tags) == {"mine", "branch:main", "condition:ok"}
    assert sample.metadata == mine


@needs_graphs
def test_a_named_question_is_read_in_the_state_too(world: World) -> None:
    """A graph that goes on in another process has its question under the name that was given."""
    steps: list[Any] = [
        lambda s: {**s, FOUND: store().similarity_search(s["topic"], k=2)},
        lambda s: {**s, **graphs.generate({**s, ASKED: s["topic"]})},
    ]
    saver = import_module("langgraph.checkpoint.memory").MemorySaver()
    app = line(dict, steps, checkpointer=saver, interrupt_before=["step1"])
    elsewhere = World()
    app.invoke({"topic": QUESTION, "tone": "kind"}, in_thread(elsewhere))
    elsewhere.close()
    handler = RagEvalCallbackHandler(world.evals, question="topic")
    app.invoke(None, {**in_thread(world), "callbacks": [handler]})
    (sample,) = samples(world)
    assert (sample.question, texts(sample)) == (QUESTION, top())


@needs_middleware
def test_artifacts_from_a_checkpoint_are_documents_again(world: World) -> None:
    """A checkpoint writes the documents of an artifact as mappings; ids and metadata are kept."""
    middleware = import_module("langchain.agents.middleware").HumanInTheLoopMiddleware

    @tool
    def book(query: str) -> str:
        """Books."""
        return "Booked."

    model = stepping(lambda q: pick((search.name, q)), lambda q: pick(("book", q)))
    saver = import_module("langgraph.checkpoint.memory").MemorySaver()
    asking = middleware(interrupt_on={"book": True})
    app = agent(model, [search, book], middleware=[asking], checkpointer=saver)
    elsewhere = World()
    app.invoke(asks(QUESTION), in_thread(elsewhere))
    elsewhere.close()
    approve = import_module("langgraph.types").Command(resume={"decisions": [{"type": "approve"}]})
    app.invoke(approve, in_thread(world))
    (sample,) = samples(world)
    pages = [PASSAGES.index(text) for text in top()]
    assert [(c.id, c.metadata) for c in sample.contexts or ()] == [
        (f"p{page}", {"page": page}) for page in pages
    ]


varied = pytest.mark.parametrize("seed", seeds(6))
State = dict[str, Any]


@pytest.fixture
def world() -> Iterator[World]:
    made = World()
    yield made
    disable()
    made.close()


def outcome(world: World) -> tuple[str, list[str] | None, str | None]:
    (seen,) = world.seen()
    assert not world.evals.stats().incidents
    return seen.sample.question, texts(seen.sample), seen.sample.answer


def say(text: str, *shown: str) -> str:
    """Ask a model that says one thing, by a chain."""
    prompt = ChatPromptTemplate.from_messages([("system", "Be brief."), ("human", "{shown}")])
    chain = prompt | Chat(reply=lambda _: text) | StrOutputParser()
    return chain.invoke({"shown": "\n".join(shown)})


def conversation(**more: Any) -> Any:
    """A state with messages and further keys."""
    add = pytest.importorskip("langgraph.graph.message").add_messages
    return state(messages=Annotated[list[BaseMessage], add], **more)


def state(**keys: Any) -> Any:
    """A state of some keys and their types."""
    return TypedDict("State", keys)  # type: ignore[operator]


def answer_of(drawn: Variation) -> str:
    return drawn.short() if drawn.chance.random() < 0.5 else drawn.sentence()


@varied
@pytest.mark.parametrize("named", [True, False])
def test_model_text_in_a_user_message_is_the_answer(world: World, named: bool, seed: int) -> None:
    """A bare text in `messages` becomes the user's, and an agent's report bears a name."""
    drawn = Variation(seed)
    question, passages = drawn.question(), drawn.passages(2)
    answer, author = passages[1], drawn.name()

    def search(state: Any) -> Any:
        return {"messages": [("ai", "\n".join(passages))]}

    def reply(state: Any) -> Any:
        text = say(answer, str(state["messages"][-1].content), question)
        return {"messages": [HumanMessage(text, name=author) if named else text]}

    graph = line(conversation(), [search, reply])
    graph.invoke({"messages": [("user", question)]}, config(world))
    assert outcome(world)[::2] == (question, answer)


@varied
def test_report_of_several_models_is_the_text_with_all_replies(world: World, seed: int) -> None:
    """A report is the text that the last step put together, beside its parts or a conversation."""
    drawn = Variation(seed)
    question, passages = drawn.question(), drawn.passages(3)
    texts = [drawn.passage() for _ in range(3)]
    keys = [drawn.name() for _ in range(4)]
    asked, whole = drawn.name(), drawn.name()
    as_list = seed % 2 == 1

    def writer(key: str, text: str) -> Callable[[State], State]:
        return lambda state: {**state, key: say(text, *state[keys[3]], state[asked])}

    def search(state: State) -> State:
        return {**state, keys[3]: [Document(p).page_content for p in passages]}

    def assemble(state: State) -> State:
        body = "\n\n".join(state[key] for key in keys[:3])
        report = f"# {question}\n{body}"
        return {**state, whole: [report] if as_list else report}

    writers = [writer(key, text) for key, text in zip(keys, texts, strict=False)]
    graph = line(dict, [search, *writers, assemble])
    graph.invoke({asked: question}, config(world))
    body = "\n\n".join(texts)
    assert outcome(world) == (question, passages, f"# {question}\n{body}")


@varied
@pytest.mark.filterwarnings("ignore:.*deprecated")
def test_a_handler_in_a_constructor_is_said_once(
    world: World, seed: int, caplog: pytest.LogCaptureFixture
) -> None:
    """LangChain hands it on to no step: nothing is captured, and the way out is named."""
    chains = pytest.importorskip("langchain_classic.chains")
    drawn = Variation(seed)
    passages, answer = drawn.passages(2), answer_of(drawn)
    retriever = store(passages).as_retriever()
    model = Chat(reply=lambda _: answer)
    chain = chains.RetrievalQA.from_chain_type(model, retriever=retriever, **config(world))
    for _ in range(2):
        chain.invoke({"query": drawn.question()})
    assert (world.seen(), world.evals.stats().offered) == ([], 0)
    (line_said,) = [r.getMessage() for r in caplog.records if r.levelname == "WARNING"]
    assert "enable" in line_said


@varied
@pytest.mark.parametrize("enabled", [True, False])
def test_a_graph_that_only_indexes_is_no_request(world: World, enabled: bool, seed: int) -> None:
    """Documents that came in and went into a store were retrieved by nobody."""
    drawn = Variation(seed)
    documents, index = drawn.name(), store([drawn.passage()])

    def clean(state: State) -> State:
        return {documents: [Document(one.page_content.strip()) for one in state[documents]]}

    def write(state: State) -> State:
        index.add_documents(state[documents])
        return {documents: []}

    steps: list[Any] = [clean, write]
    graph = line(state(**{documents: list[Document]}), steps[seed % 2 :])
    if enabled:
        enable(world.evals)
    given = [Document(f" {text}") for text in drawn.passages(drawn.chance.randint(1, 5))]
    graph.invoke({documents: given}, {} if enabled else config(world))
    stats = world.evals.stats()
    assert (world.seen(), stats.offered, stats.incidents) == ([], 0, {})


@varied
@pytest.mark.parametrize("shown", ["question", "neither", "both"])
def test_a_graph_resumed_by_another_process_has_its_question_in_the_state(
    world: World, shown: str, seed: int
) -> None:
    """Under any key: the text that the prompt shows; where that leaves doubts there is none."""
    drawn = Variation(seed)
    question, passages, answer = drawn.question(), drawn.passages(2), answer_of(drawn)
    asked, note, found, reply = (drawn.name() for _ in range(4))
    schema = state(**{asked: str, note: str, found: list[Document], reply: str})
    told = {"question": [asked], "neither": [], "both": [note, asked]}[shown]

    steps: list[Any] = [
        lambda state: {found: [Document(text) for text in passages]},
        lambda state: {reply: say(answer, *passages, *(state[key] for key in told))},
    ]
    memory = pytest.importorskip("langgraph.checkpoint.memory").MemorySaver()
    graph = line(schema, steps, checkpointer=memory, interrupt_before=["step1"])
    thread = {"configurable": {"thread_id": str(uuid4())}}
    given = {note: drawn.sentence(), asked: question}
    graph.invoke(dict(drawn.chance.sample(list(given.items()), 2)), thread)
    graph.invoke(None, {**config(world), **thread})
    if shown == "question":
        assert outcome(world) == (question, passages, answer)
    else:
        assert world.evals.stats().dropped == {"no_question": 1}
