"""A platform's HTTP side on loopback, with the shapes that the real ones were seen to answer."""

from __future__ import annotations

import json
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from starlette.concurrency import run_in_threadpool
from starlette.requests import Request as Asked
from starlette.responses import JSONResponse, Response

from tests.support.servers.loopback import Loopback, Routes


@dataclass(frozen=True)
class Request:
    method: str
    path: str
    headers: dict[str, str]
    body: Any


@dataclass(frozen=True)
class Answer:
    status: int = 200
    body: Any = None
    headers: tuple[tuple[str, str], ...] = ()
    after: float = 0.0


def well(request: Request) -> Answer:
    if request.path.startswith("/v1/span_annotations"):
        return Answer(body={"data": [{"id": "1"} for _ in request.body["data"]]})
    if request.path.startswith("/api/public/scores"):
        return Answer(202, {"message": "Accepted"})
    if request.method == "GET":
        return Answer(body={"trace": {"trace_info": {"trace_id": "tr-" + "a" * 32}}})
    return Answer(body={"assessment": {"assessment_id": "as-1"}})


class PlatformServer(Loopback):
    def __init__(self, answer: Callable[[Request], Answer]) -> None:
        self.requests: list[Request] = []
        self.answer = answer
        super().__init__()

    def routes(self) -> Routes:
        return {"/{path:path}": self._take}

    async def _take(self, asked: Asked) -> Response:
        content, query = await asked.body(), asked.url.query
        path = asked.scope["raw_path"].decode() + (f"?{query}" if query else "")
        body = json.loads(content) if content else None
        request = Request(asked.method, path, dict(asked.headers), body)
        self.requests.append(request)
        answer = await run_in_threadpool(self.answer, request)
        await self.rest(answer.after)
        headers = dict(answer.headers)
        if answer.status == 204:
            return Response(None, 204, headers)
        return JSONResponse(answer.body, answer.status, headers)
