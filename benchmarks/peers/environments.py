"""Environments of the peers: made from pinned files, measured, and run in."""

from __future__ import annotations

import json
import os
import statistics
import subprocess
import sys
import time
from collections.abc import Sequence
from pathlib import Path
from typing import Any

__all__ = [
    "BUILD",
    "IMPORTS",
    "OURS",
    "PEERS",
    "ROOT",
    "PeerFailure",
    "driven",
    "import_seconds",
    "made",
    "size_mb",
    "version",
]

ROOT = Path(__file__).parents[2]
BUILD = ROOT / "build" / "bench"
REQUIREMENTS = Path(__file__).parent / "requirements"
OURS = "rag-eval-hooks"
PEERS = tuple(sorted(path.stem for path in REQUIREMENTS.glob("*.txt") if path.stem != OURS))
IMPORTS = {
    OURS: "rag_eval_hooks",
    "openinference": "openinference.instrumentation.langchain",
    "traceloop": "opentelemetry.instrumentation.langchain",
    "langfuse": "langfuse.langchain",
    "deepeval": "deepeval.metrics",
    "ragas": "ragas.metrics.collections",
    "trulens": "trulens.providers.openai",
}
"""Module that an application imports first."""
PACKAGES = {
    "openinference": "openinference-instrumentation-langchain",
    "traceloop": "opentelemetry-instrumentation-langchain",
    "trulens": "trulens-core",
}
"""Package whose version is named, where it is not called as the peer."""


class PeerFailure(Exception):
    """A peer could not be installed or driven; the message is the reason."""


def made(peer: str) -> Path:
    """Return the interpreter of a peer's environment, which is made where its pins changed.

    Raises:
        PeerFailure: The pinned versions cannot be installed.
    """
    pins = REQUIREMENTS / f"{peer}.txt"
    environment = BUILD / peer
    python, stamp = environment / "bin" / "python", environment / "pins.txt"
    if stamp.exists() and stamp.read_bytes() == pins.read_bytes():
        return python
    run([sys.executable, "-m", "venv", "--clear", str(environment)])
    run([str(python), "-m", "pip", "install", "--quiet", "--no-deps", "-r", str(pins)])
    if peer == OURS:
        run([str(python), "-m", "pip", "install", "--quiet", "--no-deps", str(ROOT)])
    stamp.write_bytes(pins.read_bytes())
    return python


def run(
    command: Sequence[str], *, source: bool = False, text: str = "", timeout: float = 900
) -> str:
    """Return what a command prints.

    Args:
        command: Program and arguments.
        source: Whether it may import this repository.
        text: Its standard input.
        timeout: Seconds.

    Raises:
        PeerFailure: It fails, or takes longer.
    """
    path = {"PYTHONPATH": f"{ROOT}{os.pathsep}{ROOT / 'integrations'}"} if source else {}
    known = {name: value for name, value in os.environ.items() if name != "PYTHONPATH"}
    BUILD.mkdir(parents=True, exist_ok=True)
    environment = known | path
    try:
        done = subprocess.run(
            command,
            env=environment,
            cwd=BUILD,
            input=text,
            capture_output=True,
            text=True,
            timeout=timeout,
        )
    except subprocess.TimeoutExpired as error:
        raise PeerFailure(f"took longer than {timeout:.0f} s") from error
    if done.returncode:
        lines = done.stderr.strip().splitlines() or [f"ended with status {done.returncode}"]
        raise PeerFailure(lines[-1][:200])
    return done.stdout


def driven(python: Path, module: str, *arguments: str, text: str = "") -> Any:
    """Return the JSON that a driver of this package prints last.

    Raises:
        PeerFailure: The driver fails.
    """
    command = [str(python), "-m", f"benchmarks.peers.{module}", *arguments]
    return json.loads(run(command, source=True, text=text).strip().splitlines()[-1])


def import_seconds(python: Path, module: str, rounds: int = 5) -> float:
    """Return the seconds that importing a module adds to starting Python: a median of pairs."""

    def seconds(code: str) -> float:
        began = time.perf_counter()
        run([str(python), "-c", code])
        return time.perf_counter() - began

    pairs = [seconds(f"import {module}") - seconds("pass") for _ in range(rounds + 1)]
    return statistics.median(pairs[1:])  # the first writes the compiled files


def size_mb(python: Path) -> float:
    """Return the size in MB of an environment's packages, but for pip and compiled files."""
    packages = next(python.parents[1].glob("lib/python3*/site-packages"))
    return (
        sum(
            path.lstat().st_size
            for path in packages.rglob("*")
            if path.is_file()
            and path.suffix != ".pyc"
            and not path.relative_to(packages).parts[0].startswith(("pip", "setuptools"))
        )
        / 1e6
    )


def version(peer: str) -> str:
    """Return the pinned version of a peer; the repository's own is `this tree`."""
    name = PACKAGES.get(peer, peer).lower()
    for line in (REQUIREMENTS / f"{peer}.txt").read_text(encoding="utf-8").splitlines():
        package, _, number = line.partition("==")
        if package.lower().replace("_", "-") == name:
            return number
    return "this tree"
