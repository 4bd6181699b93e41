"""Viewer of traces for the demo: a real Phoenix, started and ended with it."""

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

from rag_eval_hooks.cli import UsageError

__all__ = ["VIEWERS", "link", "phoenix", "until_interrupted"]

VIEWERS: Final = ("phoenix",)
_PORT: Final = 6006
_START_TIMEOUT: Final = 120.0
_END_TIMEOUT: Final = 10.0


@contextlib.contextmanager
def phoenix(command: str) -> Iterator[str]:
    """Run Phoenix with data in a temporary folder, and yield its URL.

    The port is 6006, or a free one if that is taken.

    Args:
        command: Name or path of its executable.

    Raises:
        UsageError: There is no such executable, or it does not start.
    """
    executable = shutil.which(command)
    if executable is None:
        raise UsageError(f"--viewer-command: no {command} here; pip install arize-phoenix")
    # A termination signal ends Phoenix first.
    signal.signal(signal.SIGTERM, signal.default_int_handler)
    with tempfile.TemporaryDirectory(prefix="rag-eval-hooks-phoenix-") as folder:
        port = _free(_PORT)
        with _process([executable, "serve"], _environment(folder, port), Path(folder)) as started:
            url = f"http://127.0.0.1:{port}"
            _wait_for(url, started, Path(folder))
            yield url


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


def _wait_for(url: str, process: subprocess.Popen[bytes], folder: Path) -> None:
    deadline = time.monotonic() + _START_TIMEOUT
    while process.poll() is None and time.monotonic() < deadline:
        with contextlib.suppress(OSError), urllib.request.urlopen(f"{url}/healthz", timeout=5):
            return
        time.sleep(0.2)
    said = (folder / "log").read_text(encoding="utf-8", errors="replace")
    print(said[-2000:], file=sys.stderr)
    raise UsageError("--viewer: phoenix did not start; see above")
