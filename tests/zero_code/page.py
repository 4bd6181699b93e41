"""A Chainlit page that knows nothing of evaluation."""

from __future__ import annotations

import chainlit
from web import PROMPT, _ingest, clerk, shelf


@chainlit.on_message
async def answer(message: chainlit.Message) -> None:
    """Answer as a stream; retriever and model are called one by one."""
    reply = chainlit.Message(content="")
    if message.content == "ingest":
        reply.content = _ingest()
    else:
        found = await shelf.ainvoke(message.content)
        prompt = PROMPT.format(context=found[0].page_content, question=message.content)
        async for chunk in clerk.astream(prompt):
            await reply.stream_token(str(chunk.content))
    await reply.send()
