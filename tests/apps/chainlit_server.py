"""Pages of Chainlit, asked over its socket as a browser does."""

from __future__ import annotations

import asyncio
import os
import tempfile
from collections.abc import Awaitable, Callable
from typing import Any

os.environ.setdefault("CHAINLIT_APP_ROOT", tempfile.mkdtemp())  # it writes its settings there

import chainlit
import uvicorn
from chainlit.server import app as server
from langchain_core.output_parsers import StrOutputParser
from langchain_core.runnables import RunnablePassthrough

from tests.apps.langchain_kit import Case, app, best, model, retriever
from tests.apps.texts import Texts
from tests.matrix.langchain.kit import ASKED, PROMPT, SHOWN, joined
from tests.matrix.shape import Shape
from tests.zero_code.ask_page import asked

WAYS = ("handler", "enable")
Answering = Callable[[str, Any], Any]


def page(answer: Answering, config: Any) -> None:
    """Set what the page does with a message: it streams the parts of its answer."""

    async def answered(message: chainlit.Message) -> None:
        reply = chainlit.Message(content="")
        async for part in answer(message.content, config):
            await reply.stream_token(part)
        await reply.send()

    chainlit.on_message(answered)


def served(ask: Callable[[str], Awaitable[None]]) -> None:
    """Serve the page to what asks at its address."""

    async def serve() -> None:
        # The end of Chainlit's lifespan leaves the process.
        config = uvicorn.Config(server, port=0, lifespan="off", log_level="error")
        running = uvicorn.Server(config)
        task = asyncio.create_task(running.serve())
        while not running.started:
            await asyncio.sleep(0.01)
        port = running.servers[0].sockets[0].getsockname()[1]
        try:
            await ask(f"http://127.0.0.1:{port}")
        finally:
            running.should_exit = True
            await task

    asyncio.run(serve())


def case(texts: Texts, answer: Answering, found: int) -> Case:
    question, said = texts.question(0), texts.answer(0)

    def ask(config: Any) -> None:
        page(answer, config)

        async def one(url: str) -> None:
            reply = await asked(url, question)
            assert reply == said, reply

        served(one)

    contexts = best(texts, question, found)
    return Case(question=question, contexts=contexts, answer=said, ask=ask)


def by_chain(texts: Texts) -> Case:
    """A chain whose stream the page shows."""
    inputs: Any = {SHOWN: retriever(texts, 2) | joined, ASKED: RunnablePassthrough()}
    chain = inputs | PROMPT | model(default=texts.answer(0)) | StrOutputParser()
    return case(texts, chain.astream, 2)


def by_hand(texts: Texts) -> Case:
    """A retriever and a model that the page calls one by one."""

    async def answer(question: str, config: Any) -> Any:
        found = await retriever(texts).ainvoke(question, config)
        prompt = f"{joined(found)}\n\n{question}"
        async for part in model(default=texts.answer(0)).astream(prompt, config):
            yield str(part.content)

    return case(texts, answer, 3)


def shapes(seed: int) -> list[Shape]:
    """All pages."""
    group = "pages of Chainlit"
    return [
        app(group, "chainlit, a streamed chain", by_chain, seed, WAYS),
        app(group, "chainlit, retriever and model by hand", by_hand, seed, ("enable",)),
    ]
