"""How applications are put together around a chain."""

from __future__ import annotations

import asyncio
import functools
import threading
from typing import Any

from langchain_core.runnables import RunnableLambda

from rag_eval_hooks_langchain import RagEvalCallbackHandler
from tests.matrix.langchain import kit
from tests.matrix.langchain.lcel import plain
from tests.matrix.world import World

GROUP = "application"
SPANS = kit.RETRIEVED


due = kit.due
scene = functools.partial(kit.scene, GROUP)
config = kit.config


def larger_answer(question: str) -> str:
    return f"Good day to you, dear passenger. {kit.answer_to(question, kit.top(question))}"


@kit.shape(
    GROUP, "RAG chain inside a larger chain", answer=larger_answer, spans=("chat scripted", *SPANS)
)
def larger() -> Any:
    """The chain is one step of an application, which greets and signs."""
    greet = kit.Chat(reply=lambda messages: "Good day to you, dear passenger.")

    def serve(question: str) -> str:
        hello = greet.invoke("Greet the passenger.").content
        return f"{hello} {plain().invoke(question)}"

    return RunnableLambda(serve)


@scene("handler on a sub-chain only", [due()], kit.CHAIN_WAYS)
def on_a_sub_chain(world: World, way: str) -> None:
    inner = plain().with_config(config(world))
    kit.call(way, RunnableLambda(lambda given: given["ask"]) | inner, [{"ask": kit.QUESTION}], {})


@scene("handlers in constructors only", [due()], ("invoke", "stream", "ainvoke"))
def in_constructors(world: World, way: str) -> None:
    """Retriever and model each carry the handler; the application says what belongs together."""
    handler = RagEvalCallbackHandler(world.evals)
    retriever = kit.base().with_config(callbacks=[handler])
    model = kit.reader(callbacks=[handler])

    async def ask() -> None:
        with world.evals.interaction(kit.QUESTION):
            found = await retriever.ainvoke(kit.QUESTION)
            await model.ainvoke(
                kit.PROMPT.invoke({kit.SHOWN: kit.joined(found), kit.ASKED: kit.QUESTION})
            )

    if way == "ainvoke":
        asyncio.run(ask())
        return
    with world.evals.interaction(kit.QUESTION):
        found = retriever.invoke(kit.QUESTION)
        prompt = kit.PROMPT.invoke({kit.SHOWN: kit.joined(found), kit.ASKED: kit.QUESTION})
        if way == "invoke":
            model.invoke(prompt)
        else:
            list(model.stream(prompt))


@scene("a bare thread that is given the config", [due()], ("invoke", "ainvoke"))
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

    kit.call(way, RunnableLambda(serve), [kit.QUESTION], config(world))


@scene("model without retrieval", [], kit.CHAIN_WAYS)
def no_retrieval(world: World, way: str) -> None:
    kit.call(
        way,
        kit.PROMPT | kit.reader(),
        [{kit.SHOWN: "nothing", kit.ASKED: kit.QUESTION}],
        config(world),
    )


@scene(
    "retriever alone",
    [],
    ("invoke", "batch", "ainvoke", "abatch"),
    incidents={"A retriever ran with the handler, but no model: pass it to a chain around both": 1},
)
def retriever_alone(world: World, way: str) -> None:
    kit.call(way, kit.store().as_retriever(), [kit.QUESTION], config(world))


@scene(
    "the run that is the interaction by name",
    [due(), due(kit.QUESTIONS[1])],
    kit.CHAIN_WAYS,
    write='RagEvalCallbackHandler(evals, root="rag")',
)
def named_root(world: World, way: str) -> None:
    """Each call of the chain of this name is one interaction, whatever stands around it."""
    chain = plain().with_config(run_name="rag")

    def serve(questions: list[str]) -> list[str]:
        return [chain.invoke(question) for question in questions]

    handler = RagEvalCallbackHandler(world.evals, root="rag")
    kit.call(way, RunnableLambda(serve), [list(kit.QUESTIONS)], {"callbacks": [handler]})
