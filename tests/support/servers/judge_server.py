"""An OpenAI-compatible endpoint on loopback: truthful, scripted or faulty, and recording."""

from __future__ import annotations

import asyncio
import hashlib
import json
from collections.abc import AsyncIterator, Callable, Iterable, Mapping
from dataclasses import dataclass
from functools import partial
from typing import Any

from starlette.requests import Request
from starlette.responses import JSONResponse, Response, StreamingResponse

from tests.support.servers.brain import embedding, truthful_reply
from tests.support.servers.faults import HTTP_FAULTS, Fault, FaultKind, spoiled, spoiled_vectors
from tests.support.servers.loopback import Loopback, Routes

CHAT = "/v1/chat/completions"
EMBEDDINGS = "/v1/embeddings"
RESPONSES = "/v1/responses"
JSON = "application/json"

Script = Iterable[str] | Callable[[Mapping[str, Any]], str] | None


_BLOCK = 64


class PrefixCache:
    def __init__(self) -> None:
        self._known: set[bytes] = set()

    def served(self, body: Mapping[str, Any]) -> int:
        length = 0
        for end, key in self._blocks(body):
            if key not in self._known:
                break
            length = end
        return length

    def replied(self, body: Mapping[str, Any]) -> None:
        self._known |= {key for _end, key in self._blocks(body)}

    @staticmethod
    def _blocks(body: Mapping[str, Any]) -> list[tuple[int, bytes]]:
        # A provider puts the schema before the messages.
        shape = json.dumps(body.get("response_format", ""))
        text = "\n".join([shape, *(message["content"] for message in body.get("messages", ()))])
        digest = hashlib.blake2b(digest_size=8)
        blocks = []
        for start in range(0, len(text) - _BLOCK + 1, _BLOCK):
            digest.update(text[start : start + _BLOCK].encode("utf-8", "replace"))
            blocks.append((start + _BLOCK, digest.digest()))
        return blocks


@dataclass(slots=True)
class Recorded:
    number: int
    path: str
    headers: Mapping[str, str]
    body: dict[str, Any]
    fault: FaultKind | None = None
    cached: int = 0

    @property
    def prompt_chars(self) -> int:
        contents = [message["content"] or "" for message in self.body.get("messages", ())]
        parts = [[{"text": one}] if isinstance(one, str) else one for one in contents]
        return sum(len(part["text"]) for each in parts for part in each)

    @property
    def format(self) -> str | None:
        if "tools" in self.body:
            return "tool"
        kind = self.body.get("response_format", {}).get("type")
        return None if kind is None else str(kind)


class JudgeServer(Loopback):
    def __init__(
        self,
        *,
        latency: float = 0.0,
        faults: Iterable[Fault] = (),
        replies: Script = None,
        json_schema: bool = True,
        json_object: bool = True,
        tools: bool = True,
        temperature: bool = True,
        api_key: str | None = None,
        models: Iterable[str] | None = None,
        slots: int | None = None,
        keep: bool = True,
        cache: PrefixCache | None = None,
        completions: Callable[[dict[str, Any]], object] | None = None,
    ) -> None:
        self.latency = latency
        self.faults = list(faults)
        self.requests: list[Recorded] = []
        self._came = 0
        self._replies = replies if callable(replies) else iter(replies or ())
        self._formats = {"json_schema": json_schema, "json_object": json_object, "tool": tools}
        self._temperature = temperature
        self._api_key = api_key
        self._models = None if models is None else tuple(models)
        self._slots = asyncio.Semaphore(slots or 10**6)
        self._keep = keep
        self._cache = cache
        self._completions = completions
        super().__init__()

    @property
    def url(self) -> str:
        return f"{self.root}/v1"

    def calls(self, path: str = CHAT) -> list[Recorded]:
        return [request for request in self.requests if request.path == path]

    def routes(self) -> Routes:
        vectors = partial(self.handle, answer=_vectors)
        return {CHAT: self.chat, EMBEDDINGS: vectors, RESPONSES: _no_responses}

    async def chat(self, request: Request) -> Response:
        return await self.handle(request, self._completion)

    async def handle(self, request: Request, answer: Callable[[Recorded], object]) -> Response:
        recorded = await self.record(request)
        response = self._refusal(recorded)
        if response is None:
            fault = self.fault(recorded)
            is_http = fault is not None and fault.kind in HTTP_FAULTS
            response = await self._http_fault(fault) if fault and is_http else None
            # As some servers write it, with NaN.
            response = response or Response(json.dumps(answer(recorded)), media_type=JSON)
        async with self._slots:
            await self.rest(self.latency)
        if self._cache is not None:
            self._cache.replied(recorded.body)
        return response

    async def record(self, request: Request) -> Recorded:
        body = json.loads(await request.body())
        self._came += 1
        recorded = Recorded(self._came, request.url.path, dict(request.headers), body)
        recorded.cached = 0 if self._cache is None else self._cache.served(body)
        if self._keep:
            self.requests.append(recorded)
        return recorded

    def fault(self, recorded: Recorded) -> Fault | None:
        fault = next((fault for fault in self.faults if fault.hits(recorded.number)), None)
        recorded.fault = fault.kind if fault else None
        return fault

    def _refusal(self, recorded: Recorded) -> Response | None:
        body, kind = recorded.body, recorded.format
        sent_key = recorded.headers.get("authorization", "")
        if self._api_key is not None and sent_key != f"Bearer {self._api_key}":
            # Real endpoints repeat a part of the key here, and this one all of it.
            return _error(401, f"Incorrect API key provided: {sent_key}", code="invalid_api_key")
        if self._models is not None and body["model"] not in self._models:
            return _error(404, "The model does not exist", code="model_not_found")
        if kind is not None and not self._formats[kind]:
            param = "tools" if kind == "tool" else "response_format"
            text = f"Invalid parameter: '{param}' ({kind}) is not supported"
            return _error(400, text, param=param)
        if "temperature" in body and not self._temperature:
            text = "Unsupported value: 'temperature' does not support 0 with this model."
            return _error(400, text, param="temperature", code="unsupported_value")
        return None

    async def _http_fault(self, fault: Fault) -> Response:
        headers = {} if fault.retry_after is None else {"retry-after": fault.retry_after}
        if fault.kind is FaultKind.RATE_LIMIT:
            return _error(429, "Too many requests", code="rate_limit_exceeded", headers=headers)
        if fault.kind is FaultKind.SERVER_ERROR:
            return _error(500, "The server had an error", headers=headers)
        if fault.kind is FaultKind.CUT_BODY:
            return Response('{"id": "x", "choices": [{"mess', media_type=JSON)
        if fault.kind is FaultKind.HANG:
            await self.rest(3600)
        headers = {"content-length": "9999"}
        return StreamingResponse(_broken_off(), media_type=JSON, headers=headers)

    def _completion(self, recorded: Recorded) -> object:
        content = self.content(recorded)
        message: dict[str, Any] = {"role": "assistant", "content": content, "refusal": None}
        # An agent gets its answer once the tool has replied.
        if "tools" in recorded.body and recorded.body["messages"][-1]["role"] != "tool":
            name = recorded.body["tools"][0]["function"]["name"]
            function = {"name": name, "arguments": content}
            call = {"id": "call-test", "type": "function", "function": function}
            message |= {"content": None, "tool_calls": [call]}
        if recorded.fault is FaultKind.REFUSAL:
            message |= {"content": None, "tool_calls": None, "refusal": "I cannot help with that."}
        reason = "length" if recorded.fault is FaultKind.LENGTH else "stop"
        sent, replied = recorded.prompt_chars // 4, len(content) // 4
        usage = {"prompt_tokens": sent, "completion_tokens": replied}
        completion = {
            "id": "chatcmpl-test",
            "object": "chat.completion",
            "created": 0,
            "model": recorded.body["model"],
            "choices": [{"index": 0, "message": message, "finish_reason": reason}],
            "usage": {**usage, "total_tokens": sent + replied},
        }
        return completion if self._completions is None else self._completions(completion)

    def content(self, recorded: Recorded) -> str:
        if callable(self._replies):
            return self._replies(recorded.body)
        if (text := next(self._replies, None)) is not None:
            return text
        reply = truthful_reply(recorded.body)
        return spoiled(recorded.fault, reply) if recorded.fault else json.dumps(reply)


def _vectors(recorded: Recorded) -> Mapping[str, Any]:
    asked = recorded.body["input"]
    texts = [asked] if isinstance(asked, str) else asked
    rows = [
        {"object": "embedding", "index": index, "embedding": embedding(text)}
        for index, text in reversed(list(enumerate(texts)))
    ]
    usage = {"prompt_tokens": len(rows), "total_tokens": len(rows)}
    data = spoiled_vectors(recorded.fault, rows) if recorded.fault else rows
    return {"object": "list", "data": data, "model": recorded.body["model"], "usage": usage}


async def _no_responses(_request: Request) -> Response:
    return _error(404, "The Responses API is not supported by this server.")


async def _broken_off() -> AsyncIterator[bytes]:
    yield b'{"id": "x", '
    raise ConnectionAbortedError("the connection is dropped on purpose")


def _error(
    status: int, message: str, headers: Mapping[str, str] | None = None, **fields: str
) -> Response:
    body = {"message": message, "type": "invalid_request_error", "param": None, "code": None}
    return JSONResponse({"error": body | fields}, status_code=status, headers=headers)
