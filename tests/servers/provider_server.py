"""The judge server in the wire formats of other providers: Anthropic, Azure.

The truthful brain, its faults and its records are those of `JudgeServer`; here requests are
brought into its format, and its replies into the provider's.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any, TypeAlias

from starlette.applications import Starlette
from starlette.requests import Request
from starlette.responses import JSONResponse, Response
from starlette.routing import Route

from tests.servers.faults import Fault, FaultKind
from tests.servers.judge_server import JudgeServer, Recorded

__all__ = ["AZURE", "ProviderServer"]

AZURE = "/openai/v1/chat/completions"
Body: TypeAlias = Mapping[str, Any]


@dataclass(frozen=True, slots=True)
class Asked:
    """A request, whatever provider it is for."""

    system: str
    user: str
    schema: Body | None = None
    tool: str | None = None
    tool_schema: Body | None = None

    @property
    def chat(self) -> dict[str, Any]:
        """The request in the format of OpenAI, as the brain reads it."""
        messages = [
            {"role": "system", "content": self.system},
            {"role": "user", "content": self.user},
        ]
        schema = self.schema or self.tool_schema
        if schema is None:
            return {"messages": messages}
        return {"messages": messages, "response_format": {"json_schema": {"schema": schema}}}


@dataclass(frozen=True, slots=True)
class Wire:
    """The format of one provider."""

    path: str
    asked: Callable[[Body], Asked]
    reply: Callable[[Asked, str, bool], Body]
    error: Callable[[int, str], Response]


def _joined(blocks: str | Sequence[Body]) -> str:
    return blocks if isinstance(blocks, str) else "".join(block["text"] for block in blocks)


def _first(tools: Sequence[Body] | None) -> Body:
    return tools[0] if tools else {}


def _arguments(text: str) -> Body:
    """The arguments of a tool call; of a text that was cut off, what is before the cut."""
    try:
        arguments: Body = json.loads(text)
    except ValueError:
        return {}
    return arguments


def _anthropic_asked(body: Body) -> Asked:
    tool = _first(body.get("tools"))
    return Asked(
        _joined(body["system"]),
        _joined(body["messages"][-1]["content"]),
        body.get("output_config", {}).get("format", {}).get("schema"),
        tool.get("name"),
        tool.get("input_schema"),
    )


def _anthropic_reply(asked: Asked, text: str, cut: bool) -> Body:
    block: Body = {"type": "text", "text": text}
    if asked.tool:
        given = _arguments(text)
        block = {"type": "tool_use", "id": "toolu_1", "name": asked.tool, "input": given}
    reason = "tool_use" if asked.tool else "end_turn"
    return {
        "id": "msg_1",
        "type": "message",
        "role": "assistant",
        "model": "claude-test",
        "content": [block],
        "stop_reason": "max_tokens" if cut else reason,
        "stop_sequence": None,
        "usage": {"input_tokens": _tokens(asked.user), "output_tokens": _tokens(text)},
    }


def _anthropic_error(status: int, text: str) -> Response:
    overloaded = status == 429
    kind = "overloaded_error" if overloaded else "invalid_request_error"
    error = {"type": "error", "error": {"type": kind, "message": text}}
    return JSONResponse(error, 529 if overloaded else status)


def _tokens(text: str) -> int:
    return len(text) // 4


WIRES = (Wire("/v1/messages", _anthropic_asked, _anthropic_reply, _anthropic_error),)


class ProviderServer(JudgeServer):
    """`JudgeServer` that also speaks the formats of Anthropic and Azure.

    Args:
        **options: Those of `JudgeServer`; `json_schema` and the faults `RATE_LIMIT` and `LENGTH`
            mean the same in every format.
    """

    def __init__(self, **options: Any) -> None:
        self._takes_schema = options.get("json_schema", True)
        super().__init__(**options)

    @property
    def root(self) -> str:
        """URL of the server, below which each provider has paths of its own."""
        return self.url.removesuffix("/v1")

    def _app(self) -> Starlette:
        app = super()._app()
        app.add_route(AZURE, self._chat, methods=["POST"])
        app.routes.extend(Route(w.path, self._endpoint(w), methods=["POST"]) for w in WIRES)
        return app

    def _endpoint(self, wire: Wire) -> Callable[[Request], Any]:
        async def endpoint(request: Request) -> Response:
            recorded = await self._record(request)
            asked = wire.asked(recorded.body)
            fault = self._fault(recorded)
            if fault is not None and fault.kind is FaultKind.RATE_LIMIT:
                busy = wire.error(429, "Too many requests, please wait.")
                busy.headers.update({"retry-after": fault.retry_after or "0"})
                return busy
            if asked.schema is not None and not self._takes_schema:
                return wire.error(400, "This model does not support output format JSON schema")
            return JSONResponse(self._document(wire, asked, recorded, fault))

        return endpoint

    def _document(self, wire: Wire, asked: Asked, recorded: Recorded, fault: Fault | None) -> Body:
        text = self._content(replace(recorded, body=asked.chat))
        return wire.reply(asked, text, fault is not None and fault.kind is FaultKind.LENGTH)
