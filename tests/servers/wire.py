"""The documents of the OpenAI protocol that the server sends."""

from __future__ import annotations

from collections.abc import AsyncIterator, Mapping
from typing import Any

from starlette.responses import JSONResponse, Response

from tests.servers.brain import embedding
from tests.servers.faults import FaultKind, spoiled_vectors

__all__ = ["broken_off", "completion", "error", "vectors"]


def completion(
    request: Mapping[str, Any], content: str, fault: FaultKind | None, prompt_chars: int
) -> Mapping[str, Any]:
    """A chat completion; token counts are estimated at four characters a token."""
    message: dict[str, Any] = {"role": "assistant", "content": content, "refusal": None}
    if "tools" in request:
        function = {"name": request["tools"][0]["function"]["name"], "arguments": content}
        call = {"id": "call-test", "type": "function", "function": function}
        message |= {"content": None, "tool_calls": [call]}
    if fault is FaultKind.REFUSAL:
        message |= {"content": None, "tool_calls": None, "refusal": "I cannot help with that."}
    reason = "length" if fault is FaultKind.LENGTH else "stop"
    sent, made = prompt_chars // 4, len(content) // 4
    return {
        "id": "chatcmpl-test",
        "object": "chat.completion",
        "created": 0,
        "model": request["model"],
        "choices": [{"index": 0, "message": message, "finish_reason": reason}],
        "usage": {"prompt_tokens": sent, "completion_tokens": made, "total_tokens": sent + made},
    }


def vectors(body: Mapping[str, Any], fault: FaultKind | None) -> Mapping[str, Any]:
    """Embeddings of the texts, last first: the order means nothing, the index does."""
    texts = [body["input"]] if isinstance(body["input"], str) else body["input"]
    rows = [
        {"object": "embedding", "index": index, "embedding": embedding(text)}
        for index, text in reversed(list(enumerate(texts)))
    ]
    usage = {"prompt_tokens": len(rows), "total_tokens": len(rows)}
    data = spoiled_vectors(fault, rows) if fault else rows
    return {"object": "list", "data": data, "model": body["model"], "usage": usage}


async def broken_off() -> AsyncIterator[bytes]:
    """A body that starts and never ends."""
    yield b'{"id": "x", '
    raise ConnectionAbortedError("the connection is dropped on purpose")


def error(
    status: int,
    message: str,
    *,
    param: str | None = None,
    code: str | None = None,
    headers: Mapping[str, str] | None = None,
) -> Response:
    """An error as OpenAI's own endpoint words it."""
    body = {"message": message, "type": "invalid_request_error", "param": param, "code": code}
    return JSONResponse({"error": body}, status_code=status, headers=headers)
