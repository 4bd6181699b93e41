"""Create the environments of the compared libraries from pinned versions, and run code there."""

from __future__ import annotations

import json
import os
import re
import subprocess
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Any

ROOT = Path(__file__).parents[2]
BUILD = ROOT / "build" / "bench"
REQUIREMENTS = Path(__file__).parent / "requirements"
OURS = "rag-eval-hooks"
PEERS = tuple(sorted(path.stem for path in REQUIREMENTS.glob("*.txt") if path.stem != OURS))
PACKAGES = {
    "openinference": "openinference-instrumentation-langchain",
    "traceloop": "opentelemetry-instrumentation-langchain",
    "trulens": "trulens-core",
}


class PeerFailure(Exception):
    pass


def made(peer: str) -> Path:
    # A change of the pinned versions creates a new environment.
    pins = REQUIREMENTS / f"{peer}.txt"
    environment = BUILD / peer
    python, stamp = environment / "bin" / "python", environment / "pins.txt"
    if stamp.exists() and stamp.read_bytes() == pins.read_bytes():
        return python
    run([sys.executable, "-m", "venv", "--clear", str(environment)])
    run([str(python), "-m", "pip", "install", "--quiet", "--no-deps", "-r", str(pins)])
    # Every environment also runs our package, so pip installs our package with its dependencies.
    run([str(python), "-m", "pip", "install", "--quiet", str(ROOT)])
    stamp.write_bytes(pins.read_bytes())
    return python


def run(command: Sequence[str], *, text: str = "", timeout: float = 900, **variables: str) -> str:
    BUILD.mkdir(parents=True, exist_ok=True)
    known = {name: value for name, value in os.environ.items() if name != "PYTHONPATH"}
    how: dict[str, Any] = {"env": known | variables, "cwd": BUILD, "timeout": timeout}
    try:
        done: subprocess.CompletedProcess[str] = subprocess.run(
            command, input=text, capture_output=True, text=True, **how
        )
    except subprocess.TimeoutExpired as error:
        raise PeerFailure(f"the command took longer than {timeout:.0f} s") from error
    if done.returncode:
        lines = done.stderr.strip().splitlines() or [f"the command exited with {done.returncode}"]
        raise PeerFailure(lines[-1][:200])
    return done.stdout


def driven(python: Path, module: str, arguments: Sequence[str], text: str = "") -> Any:
    command = [str(python), "-m", f"benchmarks.peers.{module}", *arguments]
    source = f"{ROOT}{os.pathsep}{ROOT / 'integrations'}"
    return json.loads(run(command, text=text, PYTHONPATH=source).strip().splitlines()[-1])


def version(peer: str) -> str:
    name = PACKAGES.get(peer, peer).lower().replace("-", "[-_]")
    found = re.search(rf"(?im)^{name}==(.+)$", (REQUIREMENTS / f"{peer}.txt").read_text("utf-8"))
    return found[1] if found else "this tree"
