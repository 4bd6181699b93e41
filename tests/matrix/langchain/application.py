"""How applications are put together around a chain."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from typing import Any

from langchain_core.runnables import RunnableLambda

from rag_eval_hooks_langchain import RagEvalCallbackHandler
from tests.matrix.langchain.kit import (
    ASKED,
    CHAIN_WAYS,
    PROMPT,
    QUESTION,
    QUESTIONS,
    SHOWN,
    WORDS,
    Chat,
    answer_to,
    call,
    joined,
    reader,
    shape,
    store,
    top,
)
from tests.matrix.langchain.lcel import plain
from tests.matrix.shape import Expected, Shape
from tests.matrix.world import World

__all__ = ["SHAPES"]

GROUP = "application"
SPANS = ("chat scripted", "retrieval InMemoryVectorStore")


def due(question: str = QUESTION, **more: Any) -> Expected:
    """Return what is expected of a plain chain."""
    contexts = top(question)
    told: dict[str, Any] = {
        "question": question,
        "contexts": contexts,
        "answer": answer_to(question, contexts),
        "spans": SPANS,
    }
    return Expected(**{**told, **more})


def scene(
    name: str,
    run: Callable[[World, str], None],
    expected: Sequence[Expected],
    ways: Sequence[str] = ("invoke",),
    write: str = "",
) -> Shape:
    """A shape with a way of running of its own."""
    return Shape(
        group=GROUP, name=name, ways=ways, run=run, expected=lambda way: expected, write=write
    )


def config(world: World) -> Any:
    """A run's config with the handler."""
    return {"callbacks": [RagEvalCallbackHandler(world.evals)]}


def larger() -> Any:
    """The chain is one step of an application, which greets and signs."""
    greet = Chat(reply=lambda messages: "Good day to you, dear passenger.")

    def serve(question: str) -> str:
        hello = greet.invoke("Greet the passenger.").content
        return f"{hello} {plain().invoke(question)}"

    return RunnableLambda(serve)


def larger_answer(question: str) -> str:
    return f"Good day to you, dear passenger. {answer_to(question, top(question))}"


OTHER = WORDS("May dogs be on the car deck?")


def two_in_one() -> Any:
    def serve(question: str) -> str:
        return " ".join([plain().invoke(question), plain().invoke(OTHER)])

    return RunnableLambda(serve)


def two_contexts(question: str) -> list[str]:
    return top(OTHER)


def two_answers(question: str) -> str:
    asked = (question, OTHER)
    return " ".join(answer_to(one, top(one)) for one in asked)


def on_a_sub_chain(world: World, way: str) -> None:
    inner = plain().with_config(config(world))
    call(way, RunnableLambda(lambda given: given["ask"]) | inner, [{"ask": QUESTION}], {})


def in_constructors(world: World, way: str) -> None:
    """Retriever and model each carry the handler; the application says what belongs together."""
    handler = RagEvalCallbackHandler(world.evals)
    retriever = store().as_retriever(search_kwargs={"k": 2}).with_config(callbacks=[handler])
    model = reader(callbacks=[handler])

    async def ask() -> None:
        with world.evals.interaction(QUESTION):
            found = await retriever.ainvoke(QUESTION)
            await model.ainvoke(PROMPT.invoke({SHOWN: joined(found), ASKED: QUESTION}))

    if way == "ainvoke":
        asyncio.run(ask())
        return
    with world.evals.interaction(QUESTION):
        found = retriever.invoke(QUESTION)
        prompt = PROMPT.invoke({SHOWN: joined(found), ASKED: QUESTION})
        if way == "invoke":
            model.invoke(prompt)
        else:
            list(model.stream(prompt))


def twice(world: World, way: str) -> None:
    """In a constructor and in the config, and two handlers of one evaluator."""
    handler = RagEvalCallbackHandler(world.evals)
    other = RagEvalCallbackHandler(world.evals)
    chain = plain(model=reader(callbacks=[handler])).with_config(callbacks=[other])
    call(way, chain, [QUESTION], {"callbacks": [handler, handler, other]})


def everywhere(world: World, way: str) -> None:
    handler = RagEvalCallbackHandler.enable(world.evals)
    RagEvalCallbackHandler.enable(world.evals)
    try:
        call(way, plain(), [QUESTION], {})
        call(way, plain(), [QUESTIONS[1]], {"callbacks": [handler]})
    finally:
        RagEvalCallbackHandler.disable()
    call(way, plain(), ["Is this seen?"], {})


def threads(world: World, way: str) -> None:
    chain, told = plain(), config(world)
    with ThreadPoolExecutor(4) as pool:
        list(pool.map(lambda question: chain.invoke(question, told), QUESTIONS))


def gathered(world: World, way: str) -> None:
    chain, told = plain(), config(world)

    async def both() -> None:
        await asyncio.gather(*(chain.ainvoke(question, told) for question in QUESTIONS))

    asyncio.run(both())


def to_thread(world: World, way: str) -> None:
    chain, told = plain(), config(world)

    async def both() -> None:
        calls = (asyncio.to_thread(chain.invoke, question, told) for question in QUESTIONS)
        await asyncio.gather(*calls)

    asyncio.run(both())


def lost_context(world: World, way: str) -> None:
    """A part runs in a bare thread, which knows nothing of the run that started it.

    It is given the config, as LangChain asks for where context does not reach.
    """

    def serve(question: str, config: Any) -> str:
        out: list[str] = []
        thread = threading.Thread(target=lambda: out.append(plain().invoke(question, config)))
        thread.start()
        thread.join()
        return out[0]

    call(way, RunnableLambda(serve), [QUESTION], config(world))


def no_retrieval(world: World, way: str) -> None:
    call(way, PROMPT | reader(), [{SHOWN: "nothing", ASKED: QUESTION}], config(world))


def retriever_alone(world: World, way: str) -> None:
    call(way, store().as_retriever(), [QUESTION], config(world))


def named_root(world: World, way: str) -> None:
    """Each call of the chain of this name is one interaction, whatever stands around it."""
    chain = plain().with_config(run_name="rag")

    def serve(questions: list[str]) -> list[str]:
        return [chain.invoke(question) for question in questions]

    handler = RagEvalCallbackHandler(world.evals, root="rag")
    call(way, RunnableLambda(serve), [list(QUESTIONS)], {"callbacks": [handler]})


SHAPES = (
    shape(
        GROUP,
        "RAG chain inside a larger chain",
        larger,
        answer=larger_answer,
        spans=("chat scripted", *SPANS),
    ),
    shape(
        GROUP,
        "two in one root",
        two_in_one,
        contexts=lambda question: list(dict.fromkeys([*top(question), *two_contexts(question)])),
        answer=two_answers,
        spans=("chat scripted",) * 2 + SPANS[1:] * 2,
        questions=(WORDS("What does a season ticket at the office cost?"),),
    ),
    scene("handler on a sub-chain only", on_a_sub_chain, [due()], CHAIN_WAYS),
    scene(
        "handlers in constructors only", in_constructors, [due()], ("invoke", "stream", "ainvoke")
    ),
    scene("handler passed twice", twice, [due()], CHAIN_WAYS),
    scene(
        "global hook",
        everywhere,
        [due(), due(QUESTIONS[1])],
        CHAIN_WAYS,
        "RagEvalCallbackHandler.enable(evals)",
    ),
    scene("threads", threads, [due(), due(QUESTIONS[1])]),
    scene("gather", gathered, [due(), due(QUESTIONS[1])], ("ainvoke",)),
    scene("asyncio.to_thread", to_thread, [due(), due(QUESTIONS[1])], ("ainvoke",)),
    scene("a bare thread that is given the config", lost_context, [due()], ("invoke", "ainvoke")),
    scene("model without retrieval", no_retrieval, [], CHAIN_WAYS),
    scene("retriever alone", retriever_alone, [], ("invoke", "batch", "ainvoke", "abatch")),
    scene(
        "the run that is the interaction by name",
        named_root,
        [due(), due(QUESTIONS[1])],
        CHAIN_WAYS,
        'RagEvalCallbackHandler(evals, root="rag")',
    ),
)
