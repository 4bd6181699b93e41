"""A Chainlit page that knows nothing of evaluation."""

from __future__ import annotations

import chainlit
from web import awords, ingest, shelf


@chainlit.on_message
async def answer(message: chainlit.Message) -> None:
    reply = chainlit.Message(content="")
    if message.content == "ingest":
        reply.content = ingest()
    else:
        async for word in awords(message.content, await shelf.ainvoke(message.content)):
            await reply.stream_token(word)
    await reply.send()
