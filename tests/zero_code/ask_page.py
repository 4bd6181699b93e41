"""Asks a page of Chainlit over its socket, as a browser does, and prints its answers."""

from __future__ import annotations

import asyncio
import sys
from datetime import UTC, datetime
from typing import Any
from uuid import uuid4

import socketio


async def asked(url: str, question: str) -> str:
    told: asyncio.Future[str] = asyncio.get_running_loop().create_future()

    def took(step: dict[str, Any]) -> None:
        if step["type"] == "assistant_message" and not step.get("streaming") and not told.done():
            told.set_result(step["output"])

    browser = socketio.AsyncClient()
    browser.on("new_message", took)
    browser.on("update_message", took)
    auth = {"sessionId": str(uuid4()), "clientType": "webapp", "userEnv": "{}"}
    await browser.connect(url, auth=auth, socketio_path="/ws/socket.io", transports=["websocket"])
    try:
        await browser.emit("connection_successful")
        now = datetime.now(UTC).isoformat()
        step = {"id": str(uuid4()), "createdAt": now, "output": question, "name": "user"}
        message = {**step, "type": "user_message", "metadata": {}}
        await browser.emit("client_message", {"message": message, "fileReferences": []})
        return await asyncio.wait_for(told, 60)
    finally:
        await browser.disconnect()


async def _ask_all(url: str, *questions: str) -> None:
    for question in questions:
        print(await asked(url, question), flush=True)


if __name__ == "__main__":
    asyncio.run(_ask_all(*sys.argv[1:]))
