"""Servers of an environment of their own, started by the two documented lines."""

from __future__ import annotations

import os
import shutil
import signal
import subprocess
import time
import urllib.error
import urllib.parse
import urllib.request
from collections.abc import Sequence
from pathlib import Path
from typing import Any, Self

from tests.support.servers.otlp_collector import OtlpCollector
from tests.waiting import PATIENCE

_ROOT = Path(__file__).parents[2]
BIN = Path(os.environ.get("RAGEVAL_SERVERS", _ROOT / "build/environments/servers")) / "bin"
"""Made by `make servers`."""
CHAINLIT = Path(os.environ.get("RAGEVAL_CHAINLIT", _ROOT / "build/environments/chainlit")) / "bin"
"""Made by `make servers ARGS=--long`: Chainlit brings forty instrumentors along."""
HERE = Path(__file__).parent


class Server:
    def __init__(self, folder: Path, command: Sequence[str], port: int, bin: Path = BIN) -> None:
        for file in HERE.glob("*.py"):
            shutil.copy(file, folder)
        self.url = f"http://127.0.0.1:{port}"
        self._log = folder / "server.log"
        self.collector = OtlpCollector()
        variables = {
            "PATH": f"{bin}:{os.environ['PATH']}",
            "HOME": str(folder),
            "PYTHONPATH": os.pathsep.join([str(folder), *_SOURCE]),
            "RAG_EVAL_METRICS": "ragas.faithfulness",
            "OTEL_EXPORTER_OTLP_ENDPOINT": self.collector.listen_to_grpc(),
            # So that nothing is sent but at the end, however slow the machine is.
            "OTEL_BSP_SCHEDULE_DELAY": "600000",
        }
        with self._log.open("ab") as log:
            self._process = subprocess.Popen(
                [str(bin / "opentelemetry-instrument"), str(bin / command[0]), *command[1:]],
                cwd=folder,
                env=variables,
                stdout=log,
                stderr=log,
            )

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        if self._process.poll() is None:
            self._process.kill()
            self._process.wait()

    @property
    def log(self) -> str:
        return self._log.read_text()

    def get(self, path: str, **query: str) -> str:
        return self._call(f"{self.url}{path}?{urllib.parse.urlencode(query)}")

    def post(self, path: str, body: bytes) -> str:
        headers = {"Content-Type": "application/json"}
        return self._call(urllib.request.Request(f"{self.url}{path}", body, headers))

    def _call(self, request: str | urllib.request.Request) -> str:
        deadline = time.monotonic() + 2 * PATIENCE  # forty instrumentors start slowly
        while time.monotonic() < deadline:
            try:
                with urllib.request.urlopen(request, timeout=60) as reply:
                    return str(reply.read().decode())
            except urllib.error.HTTPError as error:
                raise AssertionError(f"{error}: {error.read()[:500]!r}\n{self.log}") from None
            except OSError:
                assert self._process.poll() is None, self.log
                time.sleep(0.1)
        raise AssertionError(f"the server does not answer\n{self.log}")

    def stop(self) -> None:
        self._process.send_signal(signal.SIGTERM)
        self.wait()

    def wait(self) -> None:
        self._process.wait(PATIENCE)

    def rag_spans(self) -> list[Any]:
        return [s for s in self.collector.received if s.name.startswith("invoke_workflow ")]

    def traces_of_requests(self) -> set[bytes]:
        return {s.trace_id for s in self.collector.received if s.kind == _SERVER}


_SERVER = 2
"""Kind of a span, in OTLP."""
_SOURCE = [path for path in os.environ.get("PYTHONPATH", "").split(os.pathsep) if path]
