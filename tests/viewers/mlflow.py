"""A real MLflow tracking server, read by its own client in its own environment."""

from __future__ import annotations

import contextlib
import json
import subprocess
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from tests.support.ports import free_port
from tests.viewers.processes import executable, serving

# What a user would write to look at the traces; the filter is the one of the search field.
READ = """
import json, sys
import mlflow
mlflow.set_tracking_uri(sys.argv[1])
for line in sys.stdin:
    traces = mlflow.search_traces(
        locations=["0"], filter_string=json.loads(line), return_type="list", max_results=500
    )
    print(json.dumps([
        {
            "trace_id": trace.info.trace_id,
            "spans": [
                {"id": span.span_id, "name": span.name, "attributes": dict(span.attributes)}
                for span in trace.data.spans
            ],
            "assessments": [
                {
                    "name": one.name,
                    "value": one.feedback.value,
                    "rationale": one.rationale,
                    "source": one.source.source_id,
                    "kind": one.source.source_type,
                    "metadata": one.metadata,
                }
                for one in trace.info.assessments
            ],
        }
        for trace in traces
    ], default=str), flush=True)
"""


@dataclass(frozen=True)
class Mlflow:
    url: str
    reader: subprocess.Popen[str]

    def traces(self, condition: str = "") -> dict[str, dict[str, Any]]:
        assert self.reader.stdin is not None
        assert self.reader.stdout is not None
        self.reader.stdin.write(json.dumps(condition or None) + "\n")
        self.reader.stdin.flush()
        found = json.loads(self.reader.stdout.readline())
        return {trace["trace_id"]: trace for trace in found}


@contextlib.contextmanager
def mlflow(folder: Path) -> Iterator[Mlflow]:
    program = executable("mlflow", "RAGEVAL_MLFLOW")
    port = free_port()
    arguments = ["server", "--host", "127.0.0.1", "--port", str(port), "--workers", "1"]
    arguments += ["--backend-store-uri", f"sqlite:///{folder}/mlflow.db"]
    arguments += ["--artifacts-destination", str(folder / "artifacts")]
    variables = {"MLFLOW_SERVER_ENABLE_JOB_EXECUTION": "false", "MLFLOW_DISABLE_TELEMETRY": "true"}
    url = f"http://127.0.0.1:{port}"
    # An installed script may be linked to; its own environment is where its interpreter is.
    python = str(Path(program).resolve().with_name("python"))
    with serving([program, *arguments], folder, f"{url}/health", variables):
        # One for all: it takes seconds to import the client.
        command = [python, "-W", "ignore", "-c", READ, url]
        with subprocess.Popen(
            command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, encoding="utf-8"
        ) as reader:
            yield Mlflow(url, reader)
