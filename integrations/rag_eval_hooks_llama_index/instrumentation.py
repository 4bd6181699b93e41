"""`enable`: registers our handler with LlamaIndex's instrumentation."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any, Unpack

from llama_index.core.instrumentation import get_dispatcher

from rag_eval_hooks import RagEval
from rag_eval_hooks.capture import CaptureOptions, Choice
from rag_eval_hooks.capture.options import CaptureKeywords
from rag_eval_hooks.evals import checked
from rag_eval_hooks.suppress import paused
from rag_eval_hooks_llama_index.handler import FRAMEWORK, Handler

__all__ = ["Instrumentation", "disable", "enable"]


class Instrumentation(Handler):
    """Our handler on LlamaIndex's root dispatcher."""

    def __init__(self, evals: RagEval, options: CaptureOptions, **how: Any) -> None:
        super().__init__(evals, options, **how)
        self._current = self._parents.current
        self._options = (options, how.get("watch_streams"))

    @property
    def options(self) -> tuple[CaptureOptions, Any]:
        """Options that `enable` was given."""
        return self._options

    @property
    def evals(self) -> RagEval:
        """Evaluator that interactions go to."""
        return self._evals

    def enable(self) -> None:
        """Add the handler."""
        root = get_dispatcher()
        root.add_span_handler(self)
        root.add_event_handler(self)
        self._recorder.locators.add(self._current)
        self._recorder.by_hand.everywhere.add(FRAMEWORK)

    def disable(self) -> None:
        """Remove the handler; open interactions are abandoned at their time limit. Idempotent."""
        root = get_dispatcher()
        root.span_handlers = [one for one in root.span_handlers if one is not self]
        root.event_handlers = [one for one in root.event_handlers if one is not self]
        self._recorder.locators.discard(self._current)
        self._recorder.by_hand.everywhere.discard(FRAMEWORK)

    @contextmanager
    def paused(self) -> Iterator[None]:
        """Capture nothing that begins in the block, in its task or thread and those it starts.

        For evaluators, dataset generators and building of indexes; concurrent requests are
        captured as ever. What an open interaction calls stays a part of that.
        """
        with paused():
            yield


def enable(
    evals: RagEval,
    *,
    question: Choice = None,
    watch_streams: bool = True,
    **options: Unpack[CaptureKeywords],
) -> Instrumentation:
    """Capture every RAG interaction of LlamaIndex in this process.

    Registers a handler of spans and events with the instrumentation's root dispatcher. It does
    dictionary work only and raises nothing into the application. Called again
    with equal arguments, it changes nothing; with others, it replaces the registration of before.

    Args:
        evals: Where interactions go.
        question: In the arguments of the outermost call: the name of a field, or a function.
        watch_streams: Whether the `response_gen` of a streaming response that an application's own
            query engine made is replaced by a generator that passes everything on and notes the
            text: it alone tells the answer. False leaves it, and such answers are not known.
        **options: See `CaptureOptions`.

    Returns:
        The registration; its `disable()` takes it off again.

    Raises:
        ConfigError: An argument cannot be used.
    """
    choices = CaptureOptions.of("enable()", {"question": question, **options})
    checked(evals)
    for registration in _registrations():
        if registration.evals is evals and registration.options == (choices, watch_streams):
            return registration
        if registration.evals is not evals:
            advice = "one RagEval of a process is enabled at a time"
            evals.incidents.mistake("enable() replaces another RagEval", advice)
    disable()
    registration = Instrumentation(evals, choices, watch_streams=watch_streams)
    registration.enable()
    return registration


def disable() -> None:
    """Take `enable` back for calls that start later. Idempotent."""
    for registration in _registrations():
        registration.disable()


def _registrations() -> list[Instrumentation]:
    handlers = get_dispatcher().span_handlers
    return [handler for handler in handlers if isinstance(handler, Instrumentation)]
