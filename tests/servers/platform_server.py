"""A platform's HTTP side on loopback, with the shapes that the real ones were seen to answer."""

from __future__ import annotations

import json
import threading
import time
from collections.abc import Callable
from dataclasses import dataclass
from http.server import BaseHTTPRequestHandler
from typing import Any, Self

from tests.servers.loopback import LoopbackServer


@dataclass(frozen=True)
class Request:
    """Request of a sink."""

    method: str
    path: str
    headers: dict[str, str]
    body: Any


@dataclass(frozen=True)
class Answer:
    """Answer of the platform: a status, a JSON body, headers, after some seconds."""

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


class PlatformServer:
    """Answers each request by a function and keeps all requests."""

    def __init__(self, answer: Callable[[Request], Answer]) -> None:
        self.requests: list[Request] = []
        self.answer = answer
        platform = self

        class Handler(BaseHTTPRequestHandler):
            protocol_version = "HTTP/1.1"

            def _handle(self) -> None:
                size = int(self.headers.get("Content-Length", 0))
                body = json.loads(self.rfile.read(size)) if size else None
                headers = {name.lower(): value for name, value in self.headers.items()}
                request = Request(self.command, self.path, headers, body)
                platform.requests.append(request)
                answer = platform.answer(request)
                time.sleep(answer.after)
                content = json.dumps(answer.body).encode()
                try:
                    self.send_response(answer.status)
                    for name, value in answer.headers:
                        self.send_header(name, value)
                    self.send_header("Content-Length", str(len(content)))
                    self.end_headers()
                    self.wfile.write(content)
                except OSError:
                    self.close_connection = True

            do_GET = do_POST = do_PATCH = _handle  # noqa: N815 - the base class's names

            def log_message(self, *_: Any) -> None: ...

        self._server = LoopbackServer(("127.0.0.1", 0), Handler)
        self._server.daemon_threads = True
        self.url = f"http://127.0.0.1:{self._server.server_port}"

    def __enter__(self) -> Self:
        threading.Thread(target=self._server.serve_forever, args=(0.02,), daemon=True).start()
        return self

    def __exit__(self, *_: object) -> None:
        self._server.shutdown()
        self._server.server_close()
