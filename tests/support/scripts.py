"""Scripts that run as processes of their own."""

from __future__ import annotations

import os
import subprocess
import sys
import textwrap
from pathlib import Path

from tests.waiting import PATIENCE


def environment(**variables: str) -> dict[str, str]:
    path = os.pathsep.join([os.getcwd(), *sys.path])
    return {**os.environ, "PYTHONPATH": path, **variables}


def run_script(
    folder: Path, code: str, *, prelude: str = "", end: int = 0, **variables: str
) -> str:
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
    assert done.returncode == end, done.stderr
    assert "Traceback" not in done.stderr, done.stderr
    return done.stdout
