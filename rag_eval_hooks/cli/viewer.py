"""Viewer of traces for the demo: a real Phoenix or Jaeger, started and ended with it."""

from __future__ import annotations

import contextlib
import json
import os
import shutil
import signal
import socket
import subprocess
import sys
import tempfile
import threading
import time
import urllib.request
from collections.abc import Iterator
from pathlib import Path
from typing import Final
from urllib.parse import urlencode

from rag_eval_hooks.cli import UsageError

__all__ = ["JAEGER", "SERVICE", "VIEWERS", "jaeger_links", "link", "running", "until_interrupted"]

SERVICE: Final = "rag-eval-hooks-demo"
"""Name under which viewers list the demo."""
VIEWERS: Final = ("phoenix", "jaeger")
JAEGER: Final = "docker run --rm -p 16686:16686 -p 4318:4318 jaegertracing/jaeger:2.20.0"
"""Command that starts one with its page and its receiver on their usual ports."""
_ADVICE: Final = {
    "phoenix": "pip install arize-phoenix",
    "jaeger": f"run: {JAEGER}, then the demo with --otlp-endpoint http://localhost:4318",
}
_JAEGER_PAGE: Final = "http://127.0.0.1:16686"
_PORT: Final = 6006
_START_TIMEOUT: Final = 120.0
_END_TIMEOUT: Final = 10.0


@contextlib.contextmanager
def running(viewer: str, command: str | None) -> Iterator[tuple[str, str]]:
    """Run a viewer with data of its own, gone with it; yield its page and its OTLP endpoint.

    Phoenix's port is 6006, or a free one if that is taken; Jaeger's ports are its usual ones.

    Args:
        viewer: One of `VIEWERS`.
        command: Name or path of its executable; None for the viewer's name.

    Raises:
        UsageError: There is no such executable, or it does not start.
    """
    executable = shutil.which(command or viewer)
    if executable is None:
        raise UsageError(f"--viewer-command: no {command or viewer} here; {_ADVICE[viewer]}")
    # A termination signal ends the viewer first.
    signal.signal(signal.SIGTERM, signal.default_int_handler)
    with tempfile.TemporaryDirectory(prefix=f"rag-eval-hooks-{viewer}-") as folder:
        if viewer == "jaeger":
            started = [executable], {**os.environ, "JAEGER_LISTEN_HOST": "127.0.0.1"}
            page, endpoint, health = _JAEGER_PAGE, "http://127.0.0.1:4318", "/"
        else:
            port = _free(_PORT)
            started = [executable, "serve"], _environment(folder, port)
            page = endpoint = f"http://127.0.0.1:{port}"
            health = "/healthz"
        with _process(*started, Path(folder)) as process:
            _wait_for(page + health, process, Path(folder), viewer)
            yield page, endpoint


def jaeger_links(page: str) -> tuple[str, ...]:
    """Return lines that say what to open in a Jaeger."""
    failing = urlencode(
        {
            "service": SERVICE,
            "tags": json.dumps({"rag.eval.pass": "false"}),
            "lookback": "2d",
            "limit": 50,
        }
    )
    return (
        f"all requests in Jaeger: {page}/search?{urlencode({'service': SERVICE})}",
        f"those that fail a threshold: {page}/search?{failing}",
    )


def link(url: str) -> str:
    """Return the page of the demo's spans in a Phoenix."""
    with contextlib.suppress(OSError, ValueError, KeyError):
        with urllib.request.urlopen(f"{url}/v1/projects/default", timeout=10) as answer:
            project = json.load(answer)["data"]["id"]
        return f"{url}/projects/{project}/spans"
    return url


def until_interrupted() -> None:
    """Wait for Ctrl-C or a termination signal."""
    ended = threading.Event()
    before = {
        number: signal.signal(number, lambda *_: ended.set())
        for number in (signal.SIGINT, signal.SIGTERM)
    }
    try:
        ended.wait()
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)


def _environment(folder: str, port: int) -> dict[str, str]:
    own = {key: value for key, value in os.environ.items() if not key.startswith("PHOENIX_")}
    return {
        **own,
        "PHOENIX_WORKING_DIR": folder,
        "PHOENIX_HOST": "127.0.0.1",
        "PHOENIX_PORT": str(port),
        "PHOENIX_GRPC_PORT": str(_free(0)),
        "PHOENIX_TELEMETRY_ENABLED": "false",
        "PHOENIX_ALLOW_EXTERNAL_RESOURCES": "false",
    }


def _free(port: int) -> int:
    """Return the port if it is free, else another one."""
    for candidate in (port, 0):
        with contextlib.suppress(OSError), socket.socket() as tried:
            tried.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
            tried.bind(("127.0.0.1", candidate))
            return int(tried.getsockname()[1])
    raise UsageError("--viewer: no free port")


@contextlib.contextmanager
def _process(
    command: list[str], environment: dict[str, str], folder: Path
) -> Iterator[subprocess.Popen[bytes]]:
    with (folder / "log").open("wb") as log:
        # In a session of its own: Ctrl-C reaches the demo, which then ends it in order.
        process = subprocess.Popen(
            command, env=environment, stdout=log, stderr=log, start_new_session=True
        )
        try:
            yield process
        finally:
            process.terminate()
            try:
                process.wait(_END_TIMEOUT)
            except subprocess.TimeoutExpired:
                process.kill()
                process.wait()


def _wait_for(url: str, process: subprocess.Popen[bytes], folder: Path, viewer: str) -> None:
    deadline = time.monotonic() + _START_TIMEOUT
    while process.poll() is None and time.monotonic() < deadline:
        with contextlib.suppress(OSError), urllib.request.urlopen(url, timeout=5):
            return
        time.sleep(0.2)
    said = (folder / "log").read_text(encoding="utf-8", errors="replace")
    print(said[-2000:], file=sys.stderr)
    raise UsageError(f"--viewer: {viewer} did not start; see above")
