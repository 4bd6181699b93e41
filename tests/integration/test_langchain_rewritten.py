"""A text that a later step masks, translates, drops or puts into a form of its own."""

from __future__ import annotations

import json
from collections.abc import Callable, Sequence
from importlib import import_module
from typing import Any, TypedDict

import pytest
from langchain_core.callbacks import CallbackManagerForRetrieverRun
from langchain_core.documents import Document
from langchain_core.messages import AIMessage, HumanMessage, SystemMessage
from langchain_core.retrievers import BaseRetriever
from langchain_core.runnables import RunnableLambda
from langchain_core.tools import StructuredTool
from pydantic import BaseModel, create_model

from rag_eval_hooks.capture.documents import DOCUMENT_KEYS
from rag_eval_hooks_langchain import RagEvalCallbackHandler
from tests.matrix.langchain.agents import pick
from tests.matrix.langchain.compat import AGENTS_MISSING, GRAPHS_MISSING, agent
from tests.matrix.langchain.kit import Chat, joined
from tests.matrix.world import World
from tests.support.langchain_requests import Fixed, config, only, texts
from tests.support.variation import Variation, seeds

Pipeline = Callable[[Sequence[Document], Callable[[str], str], str], Any]


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


def masked_and_dropped(
    documents: Sequence[Document], mask: Callable[[str], str], reply: str
) -> Any:
    def last(found: Sequence[Document]) -> list[Document]:
        return list(found)[1:]

    inner = Masking(inner=Fixed(documents=list(documents)), mask=mask)
    return inner | RunnableLambda(last) | RunnableLambda(joined) | answering(reply)


@pytest.mark.parametrize("seed", seeds(5))
@pytest.mark.parametrize("pipeline", [by_retriever, masked_and_dropped])
def test_masked_text_does_not_come_back(pipeline: Pipeline, seed: int) -> None:
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
    chain = pipeline(documents, mask, drawn.short())
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
def test_what_the_assistant_once_quoted_is_not_shown_again(
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
