"""The judge server in the wire formats of Anthropic and Azure."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any, TypeAlias

from starlette.requests import Request
from starlette.responses import JSONResponse, Response

from tests.support.servers.faults import FaultKind
from tests.support.servers.judge_server import JudgeServer
from tests.support.servers.loopback import Routes

AZURE = "/openai/v1/chat/completions"
Body: TypeAlias = Mapping[str, Any]


class ProviderServer(JudgeServer):
    def __init__(self, **options: Any) -> None:
        self._takes_schema = options.get("json_schema", True)
        super().__init__(**options)

    def routes(self) -> Routes:
        return {**super().routes(), AZURE: self.chat, "/v1/messages": self._messages}

    async def _messages(self, request: Request) -> Response:
        recorded = await self.record(request)
        body = recorded.body
        schema = body.get("output_config", {}).get("format", {}).get("schema")
        fault = self.fault(recorded)
        if fault is not None and fault.kind is FaultKind.RATE_LIMIT:
            return _error(529, "overloaded_error", "Too many requests, please wait.")
        if schema is not None and not self._takes_schema:
            return _error(
                400,
                "invalid_request_error",
                "This model does not support output format JSON schema",
            )
        tool: dict[str, Any] = next(iter(body.get("tools") or ()), {})
        schema = schema or tool.get("input_schema")
        chat: dict[str, Any] = {"messages": _chat_messages(body)}
        if schema is not None:
            chat["response_format"] = {"json_schema": {"schema": schema}}
        text = self.content(replace(recorded, body=chat))
        return JSONResponse(_message(chat, text, tool.get("name")))


def _chat_messages(body: Body) -> list[dict[str, str]]:
    system, user = body["system"], body["messages"][-1]["content"]
    return [
        {"role": "system", "content": _joined(system)},
        {"role": "user", "content": _joined(user)},
    ]


def _joined(blocks: str | Sequence[Body]) -> str:
    return blocks if isinstance(blocks, str) else "".join(block["text"] for block in blocks)


def _message(chat: Body, text: str, tool: str | None) -> Body:
    block: Body = {"type": "text", "text": text}
    if tool:
        block = {"type": "tool_use", "id": "toolu_1", "name": tool, "input": json.loads(text)}
    sent = len(chat["messages"][-1]["content"]) // 4
    return {
        "id": "msg_1",
        "type": "message",
        "role": "assistant",
        "model": "claude-test",
        "content": [block],
        "stop_reason": "tool_use" if tool else "end_turn",
        "stop_sequence": None,
        "usage": {"input_tokens": sent, "output_tokens": len(text) // 4},
    }


def _error(status: int, kind: str, text: str) -> Response:
    error = {"type": "error", "error": {"type": kind, "message": text}}
    return JSONResponse(error, status, headers={"retry-after": "0"})
