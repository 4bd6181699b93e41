"""Chains: of the expression language, of the classic package, and within applications."""

from __future__ import annotations

import functools
from collections.abc import Callable
from typing import Any

from langchain_core.chat_history import BaseChatMessageHistory
from langchain_core.documents import Document
from langchain_core.messages import AIMessage, BaseMessage, HumanMessage
from langchain_core.output_parsers import StrOutputParser
from langchain_core.prompts import ChatPromptTemplate, MessagesPlaceholder, PromptTemplate
from langchain_core.runnables import Runnable, RunnableLambda, RunnablePassthrough
from langchain_core.runnables.history import RunnableWithMessageHistory

from rag_eval_hooks import Status
from rag_eval_hooks_langchain import RagEvalCallbackHandler
from tests.matrix.langchain import kit
from tests.matrix.langchain.compat import CLASSIC_MISSING, classic
from tests.matrix.world import World

MODEL_ONLY = ("chat scripted",)
TWO_CALLS = ("chat scripted", *kit.RETRIEVED)
lcel = functools.partial(kit.shape, "LCEL")


def said(question: str) -> str:
    return kit.answer_to(question, kit.top(question))


@lcel("retriever, prompt, model, parser")
def plain(k: int = 2, model: Runnable[Any, Any] | None = None) -> Runnable[Any, str]:
    return kit.answering(kit.base(k), model)


def given_documents(question: str) -> dict[str, Any]:
    return {kit.FOUND: [Document(text) for text in kit.top(question)], kit.ASKED: question}


@lcel(inputs=given_documents, spans=MODEL_ONLY)
def documents_given_by_the_caller() -> Any:
    context = RunnablePassthrough.assign(**{kit.SHOWN: lambda given: kit.joined(given[kit.FOUND])})
    return context | kit.PROMPT | kit.reader() | StrOutputParser()


ONE_FAILS = [kit.due(), kit.due(kit.QUESTIONS[1], answer=None, status=Status.ERROR)]


@kit.scene("LCEL", ONE_FAILS, ("batch",))
def a_batch_with_one_failing_request(world: World, way: str) -> None:
    def fails(text: str) -> str:
        if text == said(kit.QUESTIONS[1]):
            raise LookupError("no tickets")
        return text

    chain, told = plain() | RunnableLambda(fails), (list(kit.QUESTIONS), kit.config(world))
    out = chain.batch(*told, return_exceptions=True)
    assert [isinstance(one, LookupError) for one in out] == [False, True]


# Within applications.


def application(*expected: Any, **more: Any) -> Callable[[kit.Run], kit.Run]:
    return kit.scene("application", expected, **{"ways": kit.CHAIN_WAYS, **more})


@application(kit.due(), ways=("invoke", "stream"))
def handlers_in_constructors_only(world: World, way: str) -> None:
    """Retriever and model each carry the handler; the application says what belongs together."""
    handler = RagEvalCallbackHandler(world.evals)
    retriever = kit.base().with_config(callbacks=[handler])
    model = kit.reader(callbacks=[handler])

    with world.evals.interaction(kit.QUESTION):
        shown = {kit.SHOWN: kit.joined(retriever.invoke(kit.QUESTION)), kit.ASKED: kit.QUESTION}
        list(getattr(model, way)(kit.PROMPT.invoke(shown)))


@application()
def model_without_retrieval(world: World, way: str) -> None:
    given = {kit.SHOWN: "nothing", kit.ASKED: kit.QUESTION}
    kit.call(way, kit.PROMPT | kit.reader(), [given], kit.config(world))


@application(
    ways=("invoke", "batch", "ainvoke", "abatch"),
    incidents={
        (
            "A retriever ran with the handler, but no model ran with the handler. "
            "Pass the handler to a chain that contains the retriever and the model"
        ): 1
    },
)
def retriever_alone(world: World, way: str) -> None:
    kit.call(way, kit.base(), [kit.QUESTION], kit.config(world))


@application(*map(kit.due, kit.QUESTIONS), write='RagEvalCallbackHandler(evals, root="rag")')
def the_run_to_score_by_its_name(world: World, way: str) -> None:
    """Each call of the chain of this name is one interaction, whatever stands around it."""
    chain = plain().with_config(run_name="rag")

    def serve(questions: list[str]) -> list[str]:
        return [chain.invoke(question) for question in questions]

    handler = RagEvalCallbackHandler(world.evals, root="rag")
    kit.call(way, RunnableLambda(serve), [list(kit.QUESTIONS)], {"callbacks": [handler]})


# Chains and retrievers of the classic package.

CHAINS: dict[str, Any] = {"missing": CLASSIC_MISSING, "spans": TWO_CALLS}
HISTORY = [
    HumanMessage(kit.WORDS("I want to buy a season ticket.")),
    AIMessage(kit.WORDS("They are sold on land.")),
]


@kit.shape(
    "classic chains",
    "RetrievalQA, refine",
    answer=lambda question: kit.answer_to(question, ("",)),
    inputs=lambda question: {"query": question},
    ways=("invoke", "ainvoke", "batch", "abatch", "stream", "astream"),
    **CHAINS,
)
def retrieval_qa_refine() -> Any:
    ask = "{context_str}\n\nQuestion: {question}"
    return classic("chains.RetrievalQA").from_chain_type(
        kit.reader(),
        chain_type="refine",
        retriever=kit.base(),
        return_source_documents=True,
        chain_type_kwargs={
            "question_prompt": PromptTemplate.from_template(f"Use only:\n{ask}"),
            "refine_prompt": PromptTemplate.from_template(f"{{existing_answer}}\nNow add:\n{ask}"),
            "document_variable_name": "context_str",
        },
    )


class Remembered(BaseChatMessageHistory):
    def __init__(self) -> None:
        self.messages = list(HISTORY)

    def clear(self) -> None:
        self.messages = []


@kit.shape(
    "classic chains",
    answer=lambda question: f"{kit.answer_to(question, ('', ''))} After 2 messages.",
    inputs=lambda question: {"input": question},
    config=lambda way: {"configurable": {"session_id": "s1"}},
)
def message_history() -> Any:
    def reply(messages: list[BaseMessage]) -> str:
        return f"{kit.reader().reply(messages)} After {len(messages) - 2} messages."

    turns: list[Any] = [
        ("system", "Use only:\n{context}"),
        MessagesPlaceholder("history"),
        ("human", "Question: {input}"),
    ]
    context: Any = (lambda given: given["input"]) | RunnablePassthrough() | kit.base() | kit.joined
    chain = RunnablePassthrough.assign(context=context) | ChatPromptTemplate.from_messages(turns)
    return RunnableWithMessageHistory(
        chain | kit.Chat(reply=reply),
        lambda session_id: Remembered(),
        input_messages_key="input",
        history_messages_key="history",
    )


ASKED = ("When does the ferry to Skarn leave?", "What does a season ticket cost?")
SUB = "  retrieval InMemoryVectorStore"


@kit.shape(
    "retrievers",
    "MultiQueryRetriever",
    contexts=lambda _: list(
        dict.fromkeys(text for asked in ASKED for text in kit.top(kit.WORDS(asked), 1))
    ),
    spans=("chat scripted", "retrieval MultiQueryRetriever", "  chat scripted", SUB, SUB),
    missing=CLASSIC_MISSING,
)
def multi_query() -> Any:
    model = kit.Chat(reply=lambda _: "\n".join(map(kit.WORDS, ASKED)))
    kind = classic("retrievers.MultiQueryRetriever")
    return kit.answering(kind.from_llm(retriever=kit.base(1), llm=model))
