"""Zero-code capture through `opentelemetry-instrument`."""

from __future__ import annotations

import logging
import signal
import threading
import time
from collections.abc import Collection
from contextlib import suppress
from functools import partial
from importlib import import_module
from types import FrameType, ModuleType
from typing import Any

from opentelemetry import trace
from opentelemetry.instrumentation.instrumentor import BaseInstrumentor
from wrapt import register_post_import_hook

from rag_eval_hooks.errors import ConfigError
from rag_eval_hooks.evals import RagEval
from rag_eval_hooks.span_processor import wrap_processors
from rag_eval_hooks.telemetry.tracing import flush_providers, global_providers

_logger = logging.getLogger("rag_eval_hooks")

_FRAMEWORKS = ("rag_eval_hooks_langchain", "rag_eval_hooks_llama_index")
_PROVIDERS = ("tracer_provider", "meter_provider", "logger_provider")


class RagEvalInstrumentor(BaseInstrumentor):  # type: ignore[misc]
    """Evaluates every RAG request of LangChain and LlamaIndex without a code change.

    ```sh
    RAG_EVAL_SAMPLE_RATE=0.1 opentelemetry-instrument python app.py
    ```

    The span processors that exist at start-up hold RAG spans until scores arrive.

    Before the process exits, the process waits for pending evaluations. The setting `exit_timeout`
    limits this wait. The process also waits at SIGTERM if the application does not handle SIGTERM.
    A Chainlit application waits when Chainlit shuts down.

    The class is a singleton. Its attribute `evals` is the evaluator, or None if capture is off.
    """

    evals: RagEval | None = None
    _enabled: tuple[ModuleType, ...] = ()

    def instrumentation_dependencies(self) -> Collection[str]:
        # `instrument` checks each framework separately.
        return ()

    def _instrument(self, **kwargs: Any) -> None:
        try:
            self._start({name: kwargs.get(name) for name in _PROVIDERS})
        except (ConfigError, ImportError) as error:
            # The error's text contains no secrets.
            _logger.error("rag_eval_hooks is off: %s", error)
        except Exception as error:  # noqa: BLE001 - an exception would stop all instrumentors
            _logger.error("rag_eval_hooks is off: %s", type(error).__name__)

    def _start(self, providers: dict[str, Any]) -> None:
        evals = RagEval(**providers)
        self._enabled = tuple(filter(None, (_enable(name, evals) for name in _FRAMEWORKS)))
        if not self._enabled:
            _logger.warning(
                "rag_eval_hooks is off. Install a supported framework: LangChain or LlamaIndex"
            )
            evals.shutdown(0)
            return
        self.evals = evals
        tracer_provider = providers["tracer_provider"] or trace.get_tracer_provider()
        evals.instrumentors.can_wait = wrap_processors(tracer_provider, evals)
        finish_at_sigterm(evals)
        register_post_import_hook(partial(_finish_with_chainlit, evals), "chainlit")

    def _uninstrument(self, **kwargs: Any) -> None:
        for enabled in self._enabled:
            enabled.disable()
        self._enabled = ()
        if self.evals is not None:
            self.evals.shutdown()
            self.evals = None


def _enable(package: str, evals: RagEval) -> ModuleType | None:
    try:
        module = import_module(package)
        module.enable(evals)
        return module
    except ImportError:
        return None
    except Exception as error:  # noqa: BLE001 - the other framework must still work
        _logger.error("%s is off: %s", package, type(error).__name__)
        return None


def finish_at_sigterm(evals: RagEval) -> bool:
    is_main = threading.current_thread() is threading.main_thread()
    if not is_main or signal.getsignal(signal.SIGTERM) is not signal.SIG_DFL:
        return False

    def handle(number: int, _: FrameType | None) -> None:
        # Finish in a thread, because the interrupted code may hold a lock that the shutdown needs.
        thread = threading.Thread(target=_finish, args=(evals,), daemon=True)
        thread.start()
        thread.join(2 * evals.config.exit_timeout + 1)
        signal.signal(number, signal.SIG_DFL)
        signal.raise_signal(number)

    # After its shutdown, uvicorn raises SIGTERM again, and then no exit hook runs.
    signal.signal(signal.SIGTERM, handle)
    return True


def _finish_with_chainlit(evals: RagEval, chainlit: Any) -> None:
    # Chainlit exits through `os._exit`, which skips signal handlers and exit hooks. A hook of the
    # application replaces this hook.
    with suppress(AttributeError, KeyError):  # Old versions have no such hook.
        chainlit.on_app_shutdown(lambda: _finish(evals))


def _finish(evals: RagEval) -> None:
    timeout = evals.config.exit_timeout
    deadline = time.monotonic() + 2 * timeout
    evals.shutdown(timeout)
    flush_providers(max(1.0, deadline - time.monotonic()), global_providers())
