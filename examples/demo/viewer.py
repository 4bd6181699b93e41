"""Start Phoenix or Jaeger for the demo, and stop it afterwards."""

from __future__ import annotations

import contextlib
import json
import os
import shutil
import socket
import subprocess
import tempfile
import threading
import time
import urllib.request
from collections.abc import Iterator, Mapping
from pathlib import Path
from urllib.parse import urlencode

__all__ = ["ADVICE", "SERVICE", "ViewerError", "jaeger_links", "phoenix_link", "running", "wait"]

SERVICE = "rag-eval-hooks-demo"
ADVICE = {
    "phoenix": "Run `pip install arize-phoenix`.",
    "jaeger": "Run `docker run --rm -p 16686:16686 -p 4318:4318 jaegertracing/jaeger:2.20.0`. "
    "Then run the demo with --otlp-endpoint http://localhost:4318.",
}
_JAEGER_PAGE = "http://127.0.0.1:16686"
_START_S, _STOP_S = 300.0, 10.0


class ViewerError(Exception):
    """The viewer is not installed, or does not start."""


@contextlib.contextmanager
def running(viewer: str, command: str | None) -> Iterator[tuple[str, str]]:
    """Run a viewer with a separate data folder. Yield the URLs of its page and OTLP endpoint.

    Raises:
        ViewerError: The viewer is not installed, or does not start.
    """
    executable = shutil.which(command or viewer)
    if executable is None:
        raise ViewerError(f"{command or viewer} is not installed. {ADVICE[viewer]}")
    with tempfile.TemporaryDirectory(prefix=f"rag-eval-hooks-{viewer}-") as folder:
        if viewer == "jaeger":
            page, endpoint, health = _JAEGER_PAGE, "http://127.0.0.1:4318", "/"
            arguments, variables = [executable], {"JAEGER_LISTEN_HOST": "127.0.0.1"}
        else:
            page = endpoint = f"http://127.0.0.1:{_free_port(6006)}"
            arguments, health = [executable, "serve"], "/healthz"
            variables = _phoenix_variables(folder, page.rpartition(":")[2])
        with _process(arguments, variables, Path(folder, "log")) as process:
            _wait_until_ready(page + health, process, Path(folder, "log"), viewer)
            yield page, endpoint


def phoenix_link(page: str) -> str:
    """Return the URL at which Phoenix shows the demo's spans."""
    try:
        with urllib.request.urlopen(f"{page}/v1/projects/default", timeout=10) as answer:
            return f"{page}/projects/{json.load(answer)['data']['id']}/spans"
    except (OSError, ValueError, KeyError):
        return page


def jaeger_links(page: str) -> str:
    """Return the URLs at which Jaeger shows all requests and the failing requests."""
    tags = {"tags": json.dumps({"rag.eval.pass": "false"}), "lookback": "2d", "limit": 50}
    return (
        f"all requests in Jaeger: {page}/search?{urlencode({'service': SERVICE})}\n"
        f"requests below a threshold: {page}/search?{urlencode({'service': SERVICE, **tags})}"
    )


def wait() -> None:
    """Block until Ctrl-C or a termination signal."""
    print("Ctrl-C stops the viewer and deletes its data.", flush=True)
    with contextlib.suppress(KeyboardInterrupt):
        threading.Event().wait()


def _phoenix_variables(folder: str, port: str) -> dict[str, str]:
    return {
        "PHOENIX_WORKING_DIR": folder,
        "PHOENIX_HOST": "127.0.0.1",
        "PHOENIX_PORT": port,
        "PHOENIX_GRPC_PORT": str(_free_port(0)),
        "PHOENIX_TELEMETRY_ENABLED": "false",
        "PHOENIX_ALLOW_EXTERNAL_RESOURCES": "false",
    }


def _free_port(preferred: int) -> int:
    for port in (preferred, 0):
        with contextlib.suppress(OSError), socket.socket() as tried:
            tried.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
            tried.bind(("127.0.0.1", port))
            return int(tried.getsockname()[1])
    raise ViewerError("No port is free.")


@contextlib.contextmanager
def _process(
    command: list[str], variables: Mapping[str, str], log: Path
) -> Iterator[subprocess.Popen[bytes]]:
    inherited = {key: value for key, value in os.environ.items() if not key.startswith("PHOENIX_")}
    with log.open("wb") as out:
        # Start the viewer in a separate session, so that Ctrl-C reaches only the demo. The demo
        # then stops the viewer.
        process = subprocess.Popen(
            command, env={**inherited, **variables}, stdout=out, stderr=out, start_new_session=True
        )
        try:
            yield process
        finally:
            process.terminate()
            try:
                process.wait(_STOP_S)
            except subprocess.TimeoutExpired:
                process.kill()
                process.wait()


def _wait_until_ready(url: str, process: subprocess.Popen[bytes], log: Path, viewer: str) -> None:
    deadline = time.monotonic() + _START_S
    while process.poll() is None and time.monotonic() < deadline:
        with contextlib.suppress(OSError), urllib.request.urlopen(url, timeout=5):
            return
        time.sleep(0.2)
    said = log.read_text(encoding="utf-8", errors="replace")[-2000:]
    raise ViewerError(f"{viewer} did not start:\n{said}")
