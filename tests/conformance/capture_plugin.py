"""Pytest plugin that turns capture on around the tests of a framework, and reports what happened.

Loaded by its bare name into the framework's own pytest, where `tests` is the framework's package.
"""

from __future__ import annotations

import json
import logging
import os
import traceback
import warnings
from pathlib import Path
from typing import Any, Final

import pytest

OWN: Final = "rag_eval_hooks"


def captured() -> Any:
    from opentelemetry.sdk.trace import TracerProvider

    from rag_eval_hooks.instrumentor import RagEvalInstrumentor

    os.environ["RAG_EVAL_CAPTURE_CONTENT"] = "true"
    instrumentor = RagEvalInstrumentor()
    instrumentor.instrument(tracer_provider=TracerProvider())
    if instrumentor.evals is None:
        raise pytest.UsageError("capture did not start: see the log")
    return instrumentor.evals


def pytest_addoption(parser: pytest.Parser) -> None:
    parser.addoption("--captured", action="store_true")
    parser.addoption("--capture-report", type=Path, required=True)


def pytest_configure(config: pytest.Config) -> None:
    config.pluginmanager.register(CaptureReport(config))


class CaptureReport(logging.Handler):
    def __init__(self, config: pytest.Config) -> None:
        super().__init__(logging.WARNING)
        self.path: Path = config.getoption("--capture-report")
        self.outcomes: dict[str, str] = {}
        self.warnings: set[str] = set()
        self.evals = captured() if config.getoption("--captured") else None
        logging.getLogger(OWN).addHandler(self)

    def emit(self, record: logging.LogRecord) -> None:
        raised = traceback.format_exc(limit=-1) if record.exc_info else ""
        self.warnings.add(f"{record.getMessage()}{raised}")

    def pytest_runtest_logreport(self, report: pytest.TestReport) -> None:
        worst = self.outcomes.get(report.nodeid, "passed")
        if hasattr(report, "wasxfail"):
            self.outcomes[report.nodeid] = "xfailed"
        elif report.outcome != "passed" or worst == "passed":
            self.outcomes[report.nodeid] = report.outcome

    def pytest_warning_recorded(self, warning_message: warnings.WarningMessage) -> None:
        text = f"{warning_message.filename}: {warning_message.message}"
        if OWN in text:
            self.warnings.add(text)

    def pytest_sessionfinish(self) -> None:
        report: dict[str, Any] = {"outcomes": self.outcomes, "warnings": sorted(self.warnings)}
        if self.evals is not None:
            self.evals.flush(60)
            stats = self.evals.stats()
            settled = stats.scored + stats.sampled_out + stats.pending
            settled += sum(stats.dropped.values()) + sum(stats.failed.values())
            report["incidents"] = dict(stats.incidents)
            report["books"] = {"offered": stats.offered, "settled": settled}
            self.evals.shutdown()
        self.path.write_text(json.dumps(report))
