"""Chains of the classic package."""

from __future__ import annotations

from typing import Any

from langchain_core.chat_history import BaseChatMessageHistory
from langchain_core.messages import AIMessage, BaseMessage, HumanMessage
from langchain_core.prompts import ChatPromptTemplate, MessagesPlaceholder, PromptTemplate
from langchain_core.runnables import RunnablePassthrough
from langchain_core.runnables.history import RunnableWithMessageHistory

from tests.matrix.langchain import kit
from tests.matrix.langchain.compat import CLASSIC_MISSING, classic

GROUP = "classic chains"
CONDENSED = kit.WORDS("What does a season ticket at the office by the gate cost?")
FOLLOW_UP = ("And how much is it at the office?",)
HISTORY = [
    HumanMessage(kit.WORDS("I want to buy a season ticket.")),
    AIMessage(kit.WORDS("They are sold on land.")),
]
ONE_CALL = ("chat scripted", "retrieval InMemoryVectorStore")
TWO_CALLS = ("chat scripted", *ONE_CALL)


def condenser() -> kit.Chat:
    return kit.Chat(reply=lambda messages: CONDENSED)


def stuffed(model: Any = None) -> Any:
    prompt = ChatPromptTemplate.from_template("Use only:\n{context}\n\nQuestion: {input}")
    make = classic("chains.combine_documents.create_stuff_documents_chain")
    return make(model or kit.reader(), prompt)


class Remembered(BaseChatMessageHistory):
    """Messages of a session."""

    def __init__(self) -> None:
        self.messages = list(HISTORY)

    def clear(self) -> None:
        self.messages = []


def from_condensed(_question: str) -> list[str]:
    return kit.top(CONDENSED)


CHAINS: dict[str, Any] = {"ways": ("invoke", "ainvoke", "batch", "abatch", "stream", "astream")}


@kit.shape(
    GROUP,
    "RetrievalQA, refine",
    answer=lambda question: kit.answer_to(question, ("",)),
    inputs=lambda question: {"query": question},
    spans=TWO_CALLS,
    missing=CLASSIC_MISSING,
    **CHAINS,
)
def retrieval_qa_refine() -> Any:
    first = PromptTemplate.from_template("Use only:\n{context_str}\n\nQuestion: {question}")
    again = PromptTemplate.from_template(
        "So far: {existing_answer}\nNow add:\n{context_str}\n\nQuestion: {question}"
    )
    return classic("chains.RetrievalQA").from_chain_type(
        kit.reader(),
        chain_type="refine",
        retriever=kit.base(),
        return_source_documents=True,
        chain_type_kwargs={
            "question_prompt": first,
            "refine_prompt": again,
            "document_variable_name": "context_str",
        },
    )


@kit.shape(
    GROUP,
    "history-aware retriever",
    contexts=from_condensed,
    inputs=lambda question: {"input": question, "chat_history": HISTORY},
    questions=FOLLOW_UP,
    spans=TWO_CALLS,
    missing=CLASSIC_MISSING,
)
def history_aware() -> Any:
    prompt = ChatPromptTemplate.from_messages(
        [("system", "Rewrite."), MessagesPlaceholder("chat_history"), ("human", "{input}")]
    )
    make = classic("chains.create_history_aware_retriever")
    aware = make(condenser(), kit.base(), prompt)
    return classic("chains.create_retrieval_chain")(aware, stuffed())


@kit.shape(
    GROUP,
    "message history",
    answer=lambda question: f"{kit.answer_to(question, ('', ''))} After 2 messages.",
    inputs=lambda question: {"input": question},
    config=lambda way: {"configurable": {"session_id": "s1"}},
)
def message_history() -> Any:
    def reply(messages: list[BaseMessage]) -> str:
        return f"{kit.reader().reply(messages)} After {len(messages) - 2} messages."

    prompt = ChatPromptTemplate.from_messages(
        [
            ("system", "Use only:\n{context}"),
            MessagesPlaceholder("history"),
            ("human", "Question: {input}"),
        ]
    )
    context: Any = (lambda given: given["input"]) | RunnablePassthrough() | kit.base() | kit.joined
    chain = RunnablePassthrough.assign(context=context) | prompt | kit.Chat(reply=reply)
    return RunnableWithMessageHistory(
        chain,
        lambda session_id: Remembered(),
        input_messages_key="input",
        history_messages_key="history",
    )
