"""Zero-code capture by `opentelemetry-instrument`, under the name `rag_eval_hooks`."""

from __future__ import annotations

import logging
from collections.abc import Collection
from importlib import import_module
from operator import attrgetter
from typing import Any, Protocol, cast

from opentelemetry.instrumentation.instrumentor import BaseInstrumentor

from rag_eval_hooks.errors import ConfigError
from rag_eval_hooks.evals import RagEval

__all__ = ["RagEvalInstrumentor"]

_logger = logging.getLogger("rag_eval_hooks")

_FRAMEWORKS = {
    "rag_eval_hooks_langchain": "RagEvalCallbackHandler.enable",
    "rag_eval_hooks_llama_index": "enable",
}
"""By package: what captures every run of the process, given a `RagEval`."""
_PROVIDERS = ("tracer_provider", "meter_provider", "logger_provider")


class _Enabled(Protocol):
    def disable(self) -> None: ...


class RagEvalInstrumentor(BaseInstrumentor):  # type: ignore[misc]
    """Evaluates every RAG interaction of LangChain and LlamaIndex, without a change of code.

    ```sh
    RAG_EVAL_SAMPLE_RATE=0.1 opentelemetry-instrument python app.py
    ```

    Settings come from `RAG_EVAL_*` variables and the settings file. Whatever goes wrong is logged
    and leaves the application as it is: an exception would abort all other instrumentation.

    Attributes:
        evals: What evaluates, once instrumented and a framework is installed.
    """

    evals: RagEval | None = None
    _enabled: tuple[_Enabled, ...] = ()

    def instrumentation_dependencies(self) -> Collection[str]:
        """Return none: each framework is looked for by itself."""
        return ()

    def _instrument(self, **kwargs: Any) -> None:
        try:
            self._start({name: kwargs.get(name) for name in _PROVIDERS})
        except ConfigError as error:
            # Names setting, value and what is accepted, with secrets masked: a person needs it.
            _logger.error("rag_eval_hooks is off: %s", error)
        except Exception as error:  # noqa: BLE001 - the host's edge
            _logger.error("rag_eval_hooks is off: %s", type(error).__name__)

    def _start(self, providers: dict[str, Any]) -> None:
        evals = RagEval(**providers)
        self._enabled = tuple(filter(None, (_enable(name, evals) for name in _FRAMEWORKS)))
        if self._enabled:
            self.evals = evals
        else:
            evals.shutdown(0)

    def _uninstrument(self, **kwargs: Any) -> None:
        for enabled in self._enabled:
            enabled.disable()
        self._enabled = ()
        if self.evals is not None:
            self.evals.shutdown()
            self.evals = None


def _enable(package: str, evals: RagEval) -> _Enabled | None:
    """Capture a framework's runs; return None if it is not installed."""
    try:
        module = import_module(package)
    except ImportError:
        return None
    try:
        return cast("_Enabled", attrgetter(_FRAMEWORKS[package])(module)(evals))
    except Exception as error:  # noqa: BLE001 - the host's edge: the other framework must go on
        _logger.error("%s is off: %s", package, type(error).__name__)
        return None
