"""Scripts that run as processes of their own."""

from __future__ import annotations

import os
import subprocess
import sys
import textwrap
from pathlib import Path

from tests.waiting import PATIENCE

__all__ = ["environment", "run_script"]


def environment(**variables: str) -> dict[str, str]:
    """Return the environment of a script that imports what this process can import."""
    path = os.pathsep.join([os.getcwd(), *sys.path])
    return {**os.environ, "PYTHONPATH": path, **variables}


def run_script(
    folder: Path, code: str, *, prelude: str = "", quiet: bool = True, **variables: str
) -> str:
    """Run a script and return what it prints.

    Args:
        folder: Working directory.
        code: Source; indentation that all lines share is removed.
        prelude: Source before it.
        quiet: A traceback on standard error is a failure, even if the script goes on.
        **variables: Environment variables beside this process's.

    Raises:
        AssertionError: It ended with another exit code than 0, or left a traceback.
    """
    script = folder / "script.py"
    script.write_text(prelude + textwrap.dedent(code), encoding="utf-8")
    done = subprocess.run(
        [sys.executable, "-W", "ignore", str(script)],
        cwd=folder,
        capture_output=True,
        text=True,
        timeout=PATIENCE,
        check=False,
        env=environment(**variables),
    )
    assert done.returncode == 0, done.stderr
    assert not quiet or "Traceback" not in done.stderr, done.stderr
    return done.stdout
