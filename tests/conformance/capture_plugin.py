"""Pytest plugin that turns capture on around the tests of a framework, and reports what happened.

Loaded by its bare name into the framework's own pytest, where `tests` is the framework's package.
"""

from __future__ import annotations

import json
import logging
import os
import sys
import traceback
import warnings
from collections.abc import Callable
from contextvars import ContextVar
from pathlib import Path
from typing import Any, Final

import pytest

OWN: Final = "rag_eval_hooks"
FLUSH_S: Final = 60.0


def by_instrumentor() -> Any:
    """Capture every run as zero-code does."""
    from opentelemetry.sdk.trace import TracerProvider

    from rag_eval_hooks.instrumentor import RagEvalInstrumentor

    os.environ["RAG_EVAL_CAPTURE_CONTENT"] = "true"
    instrumentor = RagEvalInstrumentor()
    instrumentor.instrument(tracer_provider=TracerProvider())
    return instrumentor.evals


def by_hook() -> Any:
    """Capture every run by a handler in LangChain's global hook of handlers."""
    from langchain_core.callbacks import BaseCallbackHandler
    from langchain_core.tracers.context import register_configure_hook
    from opentelemetry.sdk.trace import TracerProvider

    from rag_eval_hooks import RagEval
    from rag_eval_hooks_langchain import RagEvalCallbackHandler

    evals = RagEval(tracer_provider=TracerProvider(), capture_content=True)
    handler = RagEvalCallbackHandler(evals)
    switch: ContextVar[BaseCallbackHandler | None] = ContextVar("conformance", default=handler)
    register_configure_hook(switch, inheritable=True)
    return evals


MODES: Final[dict[str, Callable[[], Any]]] = {"instrumentor": by_instrumentor, "hook": by_hook}


def pytest_addoption(parser: pytest.Parser) -> None:
    parser.addoption("--captured-by", choices=["nothing", *MODES], default="nothing")
    parser.addoption("--capture-report", type=Path, required=True)


def pytest_configure(config: pytest.Config) -> None:
    config.pluginmanager.register(CaptureReport(config))


class CaptureReport(logging.Handler):
    """Outcome of each test, and every warning of ours, written as JSON at the end."""

    def __init__(self, config: pytest.Config) -> None:
        super().__init__(logging.WARNING)
        self.path: Path = config.getoption("--capture-report")
        self.outcomes: dict[str, str] = {}
        self.warnings: set[str] = set()
        start = MODES.get(config.getoption("--captured-by"))
        self.evals = None if start is None else start()
        if start is not None and self.evals is None:
            raise pytest.UsageError("capture did not start: see the log")
        logging.getLogger(OWN).addHandler(self)

    def emit(self, record: logging.LogRecord) -> None:
        self.warnings.add(f"{record.getMessage()}{_raised_in()}")

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
        report: dict[str, Any] = {"outcomes": self.outcomes}
        if self.evals is not None:
            self.evals.flush(FLUSH_S)
            report["books"] = books_of(self.evals.stats())
            self.evals.shutdown()
        self.path.write_text(json.dumps({**report, "warnings": sorted(self.warnings)}))


def _raised_in() -> str:
    """Return file, line and text of the exception that is being handled, if one is."""
    _, error, trace = sys.exc_info()
    if error is None:
        return ""
    frame = traceback.extract_tb(trace)[-1]
    return f" ({frame.filename}:{frame.lineno} {frame.name}: {error})"


def books_of(stats: Any) -> dict[str, Any]:
    """Statistics of the session as plain values."""
    names = ("offered", "scored", "sampled_out", "pending")
    counted = ("dropped", "failed", "incidents")
    return {name: getattr(stats, name) for name in names} | {
        name: dict(getattr(stats, name)) for name in counted
    }
