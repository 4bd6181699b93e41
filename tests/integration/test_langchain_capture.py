"""Questions, answers and contexts of LangChain in every form in which an application has them."""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping, Sequence
from datetime import date
from enum import Enum
from typing import Any, TypedDict
from uuid import uuid4

import pytest
from langchain_core.documents import Document
from langchain_core.messages import AIMessage, HumanMessage, SystemMessage, ToolMessage
from langchain_core.prompts import ChatPromptTemplate
from langchain_core.retrievers import BaseRetriever
from langchain_core.runnables import RunnableLambda
from langchain_core.tools import StructuredTool
from pydantic import BaseModel

from rag_eval_hooks import Sample
from rag_eval_hooks_langchain import disable, enable
from tests.matrix.langchain.agents import pick
from tests.matrix.langchain.compat import AGENTS_MISSING, GRAPHS_MISSING, agent
from tests.matrix.langchain.kit import Chat, joined, store
from tests.matrix.world import World
from tests.support.langchain_requests import Fixed, config, line, only, texts
from tests.support.records import FINDS, NO_FINDS, RECORD_FORMS, drawn_record, envelope, number_in
from tests.support.variation import Variation, run_seed

needs_graphs = pytest.mark.skipif(GRAPHS_MISSING is not None, reason=str(GRAPHS_MISSING))
needs_agents = pytest.mark.skipif(AGENTS_MISSING is not None, reason=str(AGENTS_MISSING))
ONE, TWO = Document("one"), Document("two")
QUERY = "what the retriever is asked"


@pytest.fixture
def drawn() -> Variation:
    return Variation(run_seed())


def say(text: str, *shown: str) -> str:
    return str(Chat(reply=lambda _: text).invoke("\n".join(shown)).content)


def found_by(retriever: BaseRetriever, query: Any) -> list[str]:
    return [document.page_content for document in retriever.invoke(query)]


def outcome(world: World) -> tuple[str, list[str] | None, str | None]:
    sample = only(world)
    return sample.question, texts(sample), sample.answer


# Forms of inputs and outputs.


class Kind(Enum):
    YES = "yes"


class Source(BaseModel):
    kind: Kind = Kind.YES
    day: date = date(2024, 5, 1)


class Verdict(BaseModel):
    sources: list[Source] = [Source()]


VERDICT = '{"sources": [{"kind": "yes", "day": "2024-05-01"}]}'


class Model(BaseModel):
    question: str = "q"
    answer: str = "a"
    documents: list[Any] = []


HUMAN = HumanMessage(
    content=[{"type": "text", "text": "q"}, {"type": "image_url", "image_url": ""}]
)
FILE = {"type": "text-plain", "text": "a file"}


def asked(world: World, given: Any, outputs: Any) -> Sample:
    def answer(_: Any) -> Any:
        Fixed(documents=[TWO]).invoke(QUERY)
        return outputs

    chain: Any = RunnableLambda(answer)
    before = len(world.evals.samples())
    chain.invoke(given, config(world))
    world.evals.flush(300)
    (sample,) = world.evals.samples()[before:]
    return sample


def test_the_question_is_read_in_every_form(world: World) -> None:
    forms: list[tuple[Any, str]] = [
        ("q", "q"),
        ({"question": "q", "language": "en"}, "q"),
        ({"topic": "q", "k": 3}, "q"),
        ({"one": "a", "two": "b"}, QUERY),
        ({"messages": [SystemMessage("s"), HUMAN, AIMessage("a")]}, "q"),
        ({"messages": [{"role": "user", "content": "q"}]}, "q"),
        ({"messages": [("human", "first"), ("ai", "a"), ("user", "q")]}, "q"),
        ({"messages": "q"}, "q"),
        ({"messages": [HumanMessage("q")], "question": "", "answer": ""}, "q"),
        ({"question": "", "query": " ", "input": "q"}, "q"),
        ({"question": "", "language": "en"}, QUERY),
        ([HumanMessage([{"type": "text", "text": "q"}, FILE])], "q"),
        (ChatPromptTemplate.from_template("{x}").invoke({"x": "q"}), "q"),
        (Model(), "q"),
        (7, QUERY),
    ]
    for given, question in forms:
        assert asked(world, given, "a").question == question, given


def test_the_answer_is_read_in_every_form(world: World) -> None:
    human, ai = HumanMessage("q"), AIMessage("a")
    forms: list[tuple[Any, str | None]] = [
        ("a", "a"),
        (AIMessage([{"type": "text", "text": "a"}]), "a"),
        ({"context": [], "answer": "a"}, "a"),
        ({"messages": [HumanMessage("old"), AIMessage("old"), human]}, None),
        ({"messages": [human, ToolMessage("a", tool_call_id="1")]}, "a"),
        ({"messages": [human, ai, HumanMessage("x", name="b")]}, "a"),
        (Model(), "a"),
        ({"messages": [human, ai], "answer": ""}, "a"),
        ({"answer": " ", "output": "a"}, "a"),
        ({"messages": [human, ai], "result": {"n": 3}}, "a"),
        ({"structured_response": Kind.YES, "messages": [AIMessage("Returning")]}, '"yes"'),
        ({"raw": ai, "parsed": None, "parsing_error": "e"}, "a"),
        ({"raw": AIMessage(""), "parsed": {"n": 1}, "parsing_error": None}, '{"n": 1}'),
        (Verdict(), VERDICT),
        ({"question": "q", "context": [ONE], "answer": Verdict()}, VERDICT),
        ({"raw": AIMessage("r"), "parsed": Verdict(), "parsing_error": None}, VERDICT),
        (False, "false"),
        ({"result": [ONE]}, None),
        ({"answer": []}, '{"answer": []}'),
        (7, "7"),
    ]
    for outputs, answer in forms:
        assert asked(world, "q", outputs).answer == answer, outputs


@pytest.mark.parametrize("handed_on", [False, True])
def test_documents_under_their_name_are_found_in_every_form(handed_on: bool) -> None:
    mappings = [{"page_content": "one", "metadata": {"n": 1}}], [{"text": "one", "score": 0.5}]
    for value in (*mappings, [ONE, None], [None, (ONE, 0.5)]):

        def answer(_: Any, value: Any = value) -> str:
            step: Any = RunnableLambda(lambda given: given if handed_on else {"docs": value})
            if handed_on:
                Fixed(documents=[TWO]).invoke(QUERY)
            step.invoke({"docs": value} if handed_on else "q")
            return "a"

        RunnableLambda(answer).invoke("q", config(world := World()))
        assert texts(only(world)) == (["two"] if handed_on else ["one"]), value
        world.close()


# Where question and answer stand.


@needs_graphs
@pytest.mark.parametrize("is_nested", [False, True])
def test_the_question_is_the_text_of_the_input_that_was_used(
    world: World, is_nested: bool, drawn: Variation
) -> None:
    question, query, key = drawn.question(), drawn.question(), drawn.name()
    passage, reply = drawn.passage(), drawn.short()
    given = {drawn.name(): drawn.name(), "user_id": "en", key: question}

    def answer(state: dict[str, Any]) -> dict[str, Any]:
        rewritten = say(query, f"Rewrite: {question}")
        found = found_by(Fixed(documents=[Document(passage)]), rewritten)
        return {**state, drawn.name(): say(reply, *found, question)}

    nested = {drawn.name(): {key: question}, "user_id": drawn.name()}
    line(dict, [answer]).invoke(nested if is_nested else given, config(world))
    assert outcome(world) == (question, [passage], reply)


def state_of(**keys: Any) -> Any:
    return TypedDict("State", keys)  # type: ignore[operator]


@needs_graphs
@pytest.mark.parametrize("shown", ["neither", "both", "named"])
def test_a_graph_resumed_by_another_process_has_its_question_in_the_state(
    world: World, shown: str, drawn: Variation
) -> None:
    question, passages, answer = drawn.question(), drawn.passages(2), drawn.sentence()
    asked, note, found, reply = (drawn.name() for _ in range(4))
    schema = state_of(**{asked: str, note: str, found: list[Document], reply: str})
    told = [note, asked] if shown == "both" else []
    steps: list[Any] = [
        lambda state: {found: [Document(text) for text in passages]},
        lambda state: {reply: say(answer, *passages, *(state[key] for key in told))},
    ]
    memory = pytest.importorskip("langgraph.checkpoint.memory").MemorySaver()
    graph = line(schema, steps, checkpointer=memory, interrupt_before=["step1"])
    thread = {"configurable": {"thread_id": str(uuid4())}}
    given = {note: drawn.sentence(), asked: question}
    graph.invoke(dict(drawn.chance.sample(list(given.items()), 2)), thread)
    options = {"question": asked} if shown == "named" else {}
    graph.invoke(None, {**config(world, **options), **thread})
    if shown == "named":
        assert outcome(world) == (question, passages, answer)
    else:
        assert world.evals.stats().dropped == {"no_question": 1}


# Which texts are contexts.


class Masking(BaseRetriever):
    inner: BaseRetriever
    mask: Callable[[str], str]

    def _get_relevant_documents(self, query: str, *, run_manager: Any) -> list[Document]:
        found = self.inner.invoke(query, {"callbacks": run_manager.get_child()})
        return [Document(self.mask(d.page_content), id=d.id, metadata=d.metadata) for d in found]


def test_masked_text_does_not_come_back(world: World, drawn: Variation) -> None:
    secrets = [drawn.sentence(2) for _ in range(3)]
    whole = [f"{drawn.passage()} {secret} {drawn.passage()}" for secret in secrets]
    documents = [Document(text, id=drawn.name(), metadata={"a": drawn.name()}) for text in whole]

    def mask(text: str) -> str:
        for secret in secrets:
            text = text.replace(secret, "<hidden>")
        return text

    found: Any = Masking(inner=Fixed(documents=documents), mask=mask)
    (found | joined | Chat(reply=lambda _: "7")).invoke(drawn.question(), config(world))
    sample = only(world)
    assert texts(sample) == list(map(mask, whole))
    written = json.dumps(sample.to_dict(), ensure_ascii=False, default=str)
    written += str([span.attributes for span in world.exporter.get_finished_spans()])
    assert not any(secret in written for secret in secrets)


def test_quoted_document_of_an_earlier_turn_does_not_count(world: World, drawn: Variation) -> None:
    passages, question = drawn.passages(3), drawn.question()
    quoted = drawn.chance.choice([passages[0], f"{drawn.name()}: {passages[0]}", passages[0][:90]])
    earlier = [HumanMessage(drawn.question()), AIMessage(quoted)]

    def ask(asked: str) -> str:
        found = found_by(Fixed(documents=list(map(Document, passages))), asked)
        kept = "\n".join(found[1:])
        turns = [*earlier, HumanMessage(f"{kept}\n{asked}")]
        return str(Chat(reply=lambda _: "7").invoke(turns).content)

    RunnableLambda(ask).invoke(question, config(world))
    assert texts(only(world)) == passages[1:]


class Response(BaseModel):
    total: int = 2
    matches: list[Any]


@needs_agents
def test_an_artifact_of_any_form_gives_texts_and_ids(world: World, drawn: Variation) -> None:
    found, called, key = {drawn.name(): drawn.passage() for _ in range(2)}, "look", drawn.name()
    rows: Any = [{"id": name, key: text} for name, text in found.items()]
    artifact = Response(matches=rows)
    look = StructuredTool.from_function(
        lambda query: ("\n".join(["Found:", *found.values()]), artifact),
        name=called,
        description="Searches.",
        response_format="content_and_artifact",
    )
    calls = [pick((called, drawn.question())), drawn.short()]
    model = Chat(reply=lambda messages: calls[sum(m.type == "ai" for m in messages)])
    agent(model, [look]).invoke({"messages": [HumanMessage(drawn.question())]}, config(world))
    assert {c.id: c.text for c in only(world).contexts or ()} == found


@needs_graphs
def test_a_graph_that_only_indexes_is_no_request(world: World, drawn: Variation) -> None:
    documents, index = drawn.name(), store([drawn.passage()])

    def clean(state: Any) -> Any:
        return {documents: [Document(one.page_content.strip()) for one in state[documents]]}

    def write(state: Any) -> Any:
        index.add_documents(state[documents])
        return {documents: []}

    enable(world.evals)
    given = {documents: [Document(f" {text}") for text in drawn.passages(3)]}
    line(state_of(**{documents: list[Document]}), [clean, write]).invoke(given)
    disable()
    stats = world.evals.stats()
    assert (world.seen(), stats.offered, stats.incidents) == ([], 0, {})


pytestmark = pytest.mark.filterwarnings("ignore::DeprecationWarning")


def found_by_tools(found: Mapping[str, Any], answer: str) -> tuple[list[str], list[str] | None]:
    """Ask an agent with these tools. Return the tool texts that its model saw, and contexts."""
    shown: list[str] = []

    def say(prompt: Sequence[Any]) -> Any:
        shown[:] = [str(one.content) for one in prompt if one.type == "tool"]
        calls = [{"name": name, "args": {"about": "x"}, "id": name} for name in found]
        return answer if shown else AIMessage("", tool_calls=calls)

    def search(name: str) -> Any:
        finds = lambda about: found[name]  # noqa: E731
        return StructuredTool.from_function(finds, name=name, description="Searches.")

    world, question = World(), Variation(len(answer)).question()
    try:
        asked = agent(Chat(reply=say), list(map(search, found)))
        asked.invoke({"messages": [HumanMessage(question)]}, config(world))
        samples = [seen.sample for seen in world.seen()]
    finally:
        world.close()
    assert len(samples) < 2
    return shown, [one.text for one in samples[0].contexts or ()] if samples else None


@needs_agents
@pytest.mark.parametrize("form", RECORD_FORMS)
def test_record_of_a_tool_is_one_context(form: str, drawn: Variation) -> None:
    record = drawn_record(drawn)
    found = {drawn.name(): RECORD_FORMS[form](record, drawn)}
    found |= {drawn.name(): drawn.passage()} if drawn.chance.random() < 0.5 else {}
    shown, contexts = found_by_tools(found, number_in(record))
    assert contexts == shown


@needs_agents
@pytest.mark.parametrize("as_text", [False, True])
def test_reply_with_hits_and_counts_gives_the_hits(as_text: bool, drawn: Variation) -> None:
    passages = drawn.passages(drawn.chance.randint(1, 3))
    reply: Any = envelope(drawn, passages)
    found = {drawn.name(): json.dumps(reply) if as_text else reply}
    assert found_by_tools(found, passages[0][:30])[1] == passages


@needs_agents
@pytest.mark.parametrize("kind", NO_FINDS)
def test_reply_that_says_nothing_is_no_context(kind: str, drawn: Variation) -> None:
    reply = NO_FINDS[kind](drawn)
    (shown,), contexts = found_by_tools({drawn.name(): reply}, drawn.sentence())
    assert contexts is None
    found = {drawn.name(): reply, drawn.name(): drawn.passage()}
    assert shown not in (found_by_tools(found, shown[-30:])[1] or ())


@needs_agents
@pytest.mark.parametrize("kind", FINDS)
def test_reply_resembling_a_failure_with_a_fact_is_a_context(kind: str, drawn: Variation) -> None:
    fact = str(drawn.chance.randint(1000, 9999))
    shown, contexts = found_by_tools({drawn.name(): FINDS[kind](drawn, fact)}, fact)
    assert contexts == shown
