"""Servers as processes of their own, on free ports of the loopback device."""

from __future__ import annotations

import contextlib
import os
import shutil
import subprocess
import time
import urllib.request
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
START_TIMEOUT = 400.0


def executable(name: str, variable: str) -> str:
    """Return a program's path from a variable or the PATH. Skip the test if it is missing."""
    found = os.environ.get(variable) or shutil.which(name)
    if not found:
        pytest.skip(f"{name} is not installed; {variable} may name it")
    return found


@contextlib.contextmanager
def serving(
    command: Sequence[str], folder: Path, ready: str, variables: Mapping[str, str]
) -> Iterator[None]:
    hidden = ("PHOENIX_", "MLFLOW_", "OTEL_", "RAG_EVAL_")
    own = {key: value for key, value in os.environ.items() if not key.startswith(hidden)}
    with (folder / "server.log").open("wb") as log:
        process = subprocess.Popen(
            command, cwd=folder, env={**own, **variables}, stdout=log, stderr=log
        )
        try:
            _wait(process, ready, folder)
            yield
        finally:
            process.terminate()
            try:
                process.wait(20)
            except subprocess.TimeoutExpired:
                process.kill()
                process.wait()


def _wait(process: subprocess.Popen[bytes], ready: str, folder: Path) -> None:
    deadline = time.monotonic() + START_TIMEOUT
    while process.poll() is None and time.monotonic() < deadline:
        with contextlib.suppress(OSError), urllib.request.urlopen(ready, timeout=5):
            return
        time.sleep(0.2)
    raise RuntimeError((folder / "server.log").read_text(errors="replace")[-3000:])
