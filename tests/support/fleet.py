"""Worker processes of a fleet, and what they left."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
from collections import Counter
from pathlib import Path
from typing import Any, Self

from tests.support.scripts import environment
from tests.waiting import PATIENCE, until


class WorkerProcess:
    def __init__(
        self,
        folder: Path,
        broker: str,
        *,
        arguments: str = "celery -A rag_eval_hooks_celery.tasks worker -l INFO -c 1",
        **settings: object,
    ) -> None:
        self.folder = folder
        given = {"broker": broker, "metrics": "ragas.faithfulness", "embedder": "none", **settings}
        self._variables = {f"RAG_EVAL_{name.upper()}": str(value) for name, value in given.items()}
        self._command = [sys.executable, "-W", "ignore", "-m", *arguments.split()]
        self.log = folder / f"worker-{os.urandom(4).hex()}.log"
        self._process: subprocess.Popen[bytes] | None = None

    def start(self) -> None:
        self.folder.mkdir(parents=True, exist_ok=True)
        with self.log.open("ab") as log:
            self._process = subprocess.Popen(
                self._command,
                cwd=self.folder,
                stdout=log,
                stderr=log,
                env=environment(**self._variables),
                start_new_session=True,
            )

    @property
    def is_ready(self) -> bool:
        return self.log.exists() and b" ready." in self.log.read_bytes()

    def kill(self) -> None:
        if self._process is not None:
            os.killpg(self._process.pid, signal.SIGKILL)
            self._process.wait()
            self._process = None

    def wait(self) -> int:
        assert self._process is not None
        return self._process.wait(PATIENCE)

    def __enter__(self) -> Self:
        self.start()
        until(lambda: self.is_ready, "the worker's start")
        return self

    def __exit__(self, *_: object) -> None:
        self.kill()


def lines(path: Path) -> list[dict[str, Any]]:
    if not path.exists():
        return []
    text = path.read_text(encoding="utf-8")
    return [json.loads(line) for line in text.splitlines(keepends=True) if line.endswith("\n")]


def results(path: Path) -> Counter[str]:
    return Counter(line["sample"]["sample_id"] for line in lines(path))
