"""Graphs as repositories build them: answers, questions and texts where no rule of names looks."""

from __future__ import annotations

import itertools
import operator
from typing import Annotated, Any, TypedDict

from langchain_core.documents import Document
from langchain_core.messages import BaseMessage
from langchain_core.output_parsers import StrOutputParser
from langchain_core.prompts import ChatPromptTemplate
from langgraph.checkpoint.memory import InMemorySaver
from langgraph.graph import END, START, StateGraph
from langgraph.graph.message import add_messages

from tests.apps.langchain_kit import AGENT_WAYS, Case, app, best, model, retriever
from tests.apps.texts import Texts
from tests.matrix.langchain.kit import joined, store
from tests.matrix.shape import Shape

PROMPT = ChatPromptTemplate.from_template("Use only this:\n{context}\n\nQuestion: {question}")


def line(state: type, **nodes: Any) -> StateGraph[Any, Any, Any, Any]:
    """Nodes one after another."""
    graph: StateGraph[Any, Any, Any, Any] = StateGraph(state)
    for name, node in nodes.items():
        graph.add_node(name, node)
    names = [START, *nodes, END]
    for before, after in itertools.pairwise(names):
        graph.add_edge(before, after)
    return graph


def bare_message(texts: Texts) -> Case:
    """An answer that is added to `messages` as a bare text, and so becomes the user's."""
    question, answer = texts.question(0), texts.answer(0)

    class State(TypedDict):
        messages: Annotated[list[BaseMessage], add_messages]

    def retrieve(state: State) -> dict[str, Any]:
        found = retriever(texts).invoke(str(state["messages"][0].content))
        return {"messages": [("ai", joined(found))]}

    def generate(state: State) -> dict[str, Any]:
        chain = PROMPT | model(default=answer) | StrOutputParser()
        asked, found = state["messages"][0].content, state["messages"][-1].content
        return {"messages": [chain.invoke({"context": found, "question": asked})]}

    chain = line(State, retrieve=retrieve, generate=generate).compile()
    given = {"messages": [("user", question)]}
    return Case(chain, given, question, best(texts, question), answer)


def resumed(texts: Texts) -> Case:
    """A question under a name of the application's own, and a person who looks at the plan."""
    question, answer = texts.question(1), texts.answer(1)

    class State(TypedDict, total=False):
        topic: str
        plan: str
        remark: str
        found: list[Document]
        report: str

    def plan(state: State) -> dict[str, Any]:
        return {"plan": model(default="First look, then write.").invoke(state["topic"]).content}

    def search(state: State) -> dict[str, Any]:
        return {"found": store(texts.sheets).similarity_search(state["topic"], k=3)}

    def write(state: State) -> dict[str, Any]:
        chain = PROMPT | model(default=answer) | StrOutputParser()
        given = {"context": joined(state["found"]), "question": state["topic"]}
        return {"report": chain.invoke(given)}

    graph = line(State, plan=plan, search=search, write=write)
    chain = graph.compile(checkpointer=InMemorySaver(), interrupt_before=["search"])

    def ask(config: Any) -> None:
        config = {**config, "configurable": {"thread_id": str(texts.random.random())}}
        chain.invoke({"topic": question}, config)
        chain.update_state(config, {"remark": "go on"})
        assert chain.invoke(None, config)["report"] == answer

    return Case(question=question, contexts=best(texts, question), answer=answer, ask=ask)


def report(texts: Texts) -> Case:
    """A report that the last step puts together from texts of several models."""
    question = texts.question(2)
    parts = [f"# About this\n{texts.answer(2)}", texts.answer(3), f"In short: {texts.answer(4)}"]

    class State(TypedDict, total=False):
        question: str
        found: list[Document]
        introduction: str
        body: str
        end: str
        final_report: str

    def search(state: State) -> dict[str, Any]:
        return {"found": store(texts.sheets).similarity_search(state["question"], k=3)}

    def writer(key: str, text: str) -> Any:
        def write(state: State) -> dict[str, Any]:
            chain = PROMPT | model(default=text) | StrOutputParser()
            given = {"context": joined(state["found"]), "question": state["question"]}
            return {key: chain.invoke(given)}

        return write

    def whole(state: State) -> dict[str, Any]:
        body = state["body"].replace("As the papers say, ", "")
        return {"final_report": "\n\n".join([state["introduction"], body, state["end"]])}

    written = dict(zip(("write_introduction", "write_body", "write_end"), parts, strict=True))
    keys = ("introduction", "body", "end")
    nodes = {n: writer(k, t) for (n, t), k in zip(written.items(), keys, strict=True)}
    chain = line(State, search=search, **nodes, whole=whole).compile()
    body = parts[1].replace("As the papers say, ", "")
    answer = "\n\n".join([parts[0], body, parts[2]])
    return Case(chain, {"question": question}, question, best(texts, question), answer)


def interview(texts: Texts) -> Case:
    """A section, written last from the same sources, beside the conversation that led to it."""
    question, answer = texts.question(3), f"## Section\n{texts.answer(3)}"

    class State(TypedDict, total=False):
        messages: Annotated[list[BaseMessage], add_messages]
        context: Annotated[list[str], operator.add]
        sections: list[str]

    def search(state: State) -> dict[str, Any]:
        found = store(texts.sheets).similarity_search(str(state["messages"][0].content), k=2)
        return {"context": [joined(found)]}

    def expert(state: State) -> dict[str, Any]:
        prompt = f"Answer by this: {state['context']}\n{state['messages'][0].content}"
        return {"messages": [model(default=texts.answer(3)).invoke(prompt)]}

    def write(state: State) -> dict[str, Any]:
        prompt = f"Write a section from this: {state['context']}"
        return {"sections": [model(default=answer).invoke(prompt).content]}

    chain = line(State, search=search, expert=expert, write=write).compile()
    given = {"messages": [("user", question)]}
    return Case(chain, given, question, ["\n\n".join(best(texts, question, 2))], answer)


def old_text(texts: Texts) -> Case:
    """A second turn that finds nothing and shows the model the formatted text of the first."""
    first, question, answer = texts.question(4), "And what else?", texts.answer(4)

    class State(TypedDict, total=False):
        messages: Annotated[list[BaseMessage], add_messages]
        retrieved_documents: list[Any]
        kb_documents: str

    def retrieve(state: State) -> dict[str, Any]:
        asked = str(state["messages"][-1].content)
        found = [] if asked == question else retriever(texts, 2).invoke(asked)
        kept = {"kb_documents": joined(found)} if found else {}
        return {"retrieved_documents": found, **kept}

    def respond(state: State) -> dict[str, Any]:
        system = f"You know this:\n{state['kb_documents']}"
        return {
            "messages": [model(default=answer).invoke([("system", system), *state["messages"]])]
        }

    graph = line(State, retrieve=retrieve, respond=respond)
    chain = graph.compile(checkpointer=InMemorySaver())
    thread: dict[str, Any] = {"configurable": {"thread_id": str(texts.random.random())}}
    chain.invoke({"messages": [("user", first)]}, thread)
    shown = "\n\n".join(best(texts, first, 2))
    given = {"messages": [("user", question)]}
    return Case(chain, given, question, [shown], answer, config=thread)


def ingestion(texts: Texts) -> Case:
    """A graph that indexes the caller's documents and answers nothing."""

    class State(TypedDict, total=False):
        docs: list[Document]

    def index(state: State) -> dict[str, Any]:
        store(()).add_documents(state["docs"])
        return {"docs": []}

    given = {"docs": [Document(sheet) for sheet in texts.sheets]}
    return Case(line(State, index=index).compile(), given)


def shapes(seed: int) -> list[Shape]:
    """All graphs."""
    ways = AGENT_WAYS
    return [
        app("answer in the state", "bare text in messages", bare_message, seed, ways),
        app("answer in the state", "report put together", report, seed, ways),
        app("answer in the state", "section beside a conversation", interview, seed, ways),
        app("resumption", "question under a free name", resumed, seed, ("invoke", "enable")),
        app("text of an earlier turn", "knowledge base kept", old_text, seed, ways),
        app("no question", "ingestion graph", ingestion, seed, ways),
    ]
