"""An application on loopback, in a thread of its own, whose clients may be killed."""

from __future__ import annotations

import asyncio
import socket
import threading
import time
from collections.abc import Awaitable, Callable, Mapping
from typing import Any, Self

import uvicorn
from starlette.applications import Starlette
from starlette.requests import Request
from starlette.responses import Response

from tests.waiting import until

Routes = Mapping[str, Callable[[Request], Awaitable[Response]]]
METHODS = ["GET", "POST", "PATCH"]


class _PromptServer(uvicorn.Server):
    async def main_loop(self) -> None:
        while not await self.on_tick(0):
            await asyncio.sleep(0.01)


class Loopback:
    def __init__(self) -> None:
        self.is_stopping = False
        # asyncio switches Nagle's delay of 40 ms off only where the protocol is named.
        self._socket = socket.socket(socket.AF_INET, socket.SOCK_STREAM, socket.IPPROTO_TCP)
        self._socket.bind(("127.0.0.1", 0))
        # A client that knows the URL may connect even before the server is up.
        self._socket.listen(128)
        self.root = f"http://127.0.0.1:{self._socket.getsockname()[1]}"
        app = Starlette()
        for path, handler in self.routes().items():
            app.add_route(path, handler, methods=METHODS)
        options: Any = {"log_config": None, "log_level": "critical", "lifespan": "off"}
        config = uvicorn.Config(app, timeout_graceful_shutdown=1, **options)
        self._server = _PromptServer(config)
        self._thread = threading.Thread(
            target=self._server.run, args=([self._socket],), daemon=True
        )

    @property
    def url(self) -> str:
        return self.root

    def routes(self) -> Routes:
        raise NotImplementedError

    async def rest(self, seconds: float) -> None:
        end = time.monotonic() + seconds
        while not self.is_stopping and (left := end - time.monotonic()) > 0:
            await asyncio.sleep(min(left, 0.02))

    def __enter__(self) -> Self:
        self._thread.start()
        until(lambda: self._server.started or not self._thread.is_alive(), "the server's start")
        assert self._server.started
        return self

    def __exit__(self, *_: object) -> None:
        self.is_stopping = True
        self._server.should_exit = True
        self._thread.join(timeout=10)
        self._socket.close()
