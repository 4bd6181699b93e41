"""`enable`: registers our two handlers with LlamaIndex's instrumentation."""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterator
from contextlib import contextmanager
from inspect import BoundArguments
from typing import Any

from llama_index.core.instrumentation import get_dispatcher
from llama_index.core.instrumentation.event_handlers import BaseEventHandler
from llama_index.core.instrumentation.events import BaseEvent
from llama_index.core.instrumentation.events.exception import ExceptionEvent
from llama_index.core.instrumentation.events.llm import (
    LLMChatEndEvent,
    LLMChatStartEvent,
    LLMCompletionEndEvent,
    LLMCompletionStartEvent,
)
from llama_index.core.instrumentation.span import BaseSpan
from llama_index.core.instrumentation.span_handlers import BaseSpanHandler

from rag_eval_hooks import RagEval
from rag_eval_hooks.capture import CaptureOptions, Choice
from rag_eval_hooks.evals import checked
from rag_eval_hooks.suppress import paused
from rag_eval_hooks_llama_index.events import FRAMEWORK, Events

__all__ = ["Instrumentation", "enable"]


class Instrumentation:
    """Our handlers on LlamaIndex's root dispatcher.

    Args:
        evals: Where interactions go.
        options: Choices of the application.
        watch_streams: See `enable`.
    """

    def __init__(self, evals: RagEval, options: CaptureOptions, *, watch_streams: bool) -> None:
        self.evals = evals
        self._events = events = Events(evals, options, watch_streams=watch_streams)
        self._current = events.current
        self._span_handler = RagEvalSpanHandler(self, events)
        self._event_handler = RagEvalEventHandler(events)

    def enable(self) -> None:
        """Add the handlers."""
        root = get_dispatcher()
        root.add_span_handler(self._span_handler)
        root.add_event_handler(self._event_handler)
        self.evals.recorder.locators.add(self._current)
        self.evals.recorder.by_hand.everywhere.add(FRAMEWORK)

    def disable(self) -> None:
        """Remove the handlers; open interactions are abandoned at their time limit. Idempotent."""
        root = get_dispatcher()
        root.span_handlers = [h for h in root.span_handlers if h is not self._span_handler]
        root.event_handlers = [h for h in root.event_handlers if h is not self._event_handler]
        self.evals.recorder.locators.discard(self._current)
        self.evals.recorder.by_hand.everywhere.discard(FRAMEWORK)

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
    contexts: Choice = None,
    answer: Choice = None,
    root: str | None = None,
    retrieval_tools: Collection[str] | None = None,
    document_keys: Collection[str] | None = None,
    as_context: Callable[[Any], Any] | None = None,
    watch_streams: bool = True,
) -> Instrumentation:
    """Capture every RAG interaction of LlamaIndex in this process.

    Registers a span handler and an event handler with the instrumentation's root dispatcher.
    They do dictionary work only and raise nothing into the application. Called again for the same
    `evals`, it changes nothing.

    `question`, `contexts` and `answer` replace the automatic choice: the name of a field, or a
    function. A function that raises is counted, and the automatic choice serves.

    Args:
        evals: Where interactions go.
        question: In the arguments of the outermost call.
        contexts: In the result of a step; the last such result counts.
        answer: In the result of the outermost call.
        root: Name of the class or function whose call is an interaction, if not the outermost.
        retrieval_tools: Names of the tools whose text counts as context, or None for every tool
            where nothing else was retrieved.
        document_keys: Names of fields under which an empty list is an empty retrieval.
        as_context: Returns the text of an object of your own that is a document, else None.
        watch_streams: Whether the `response_gen` of a streaming response that an application's own
            query engine made is replaced by a generator that passes everything on and notes the
            text: it alone tells the answer. False leaves it, and such answers are not known.

    Returns:
        The registration; its `disable()` takes it off again.

    Raises:
        ConfigError: An argument cannot be used.
    """
    options = CaptureOptions(
        question=question,
        contexts=contexts,
        answer=answer,
        root=root,
        retrieval_tools=retrieval_tools,
        document_keys=document_keys,
        as_context=as_context,
    )
    registration = _registered(checked(evals))
    if registration is None:
        registration = Instrumentation(evals, options, watch_streams=watch_streams)
        registration.enable()
    return registration


def _registered(evals: RagEval) -> Instrumentation | None:
    handlers = get_dispatcher().span_handlers
    ours = (one.registration for one in handlers if isinstance(one, RagEvalSpanHandler))
    return next((registration for registration in ours if registration.evals is evals), None)


class RagEvalSpanHandler(BaseSpanHandler[BaseSpan]):
    """Passes spans on; keeps none of its own.

    Args:
        registration: What it belongs to.
        events: Where they go.
    """

    def __init__(self, registration: Instrumentation, events: Events) -> None:
        super().__init__()
        # Pydantic is slow at private attributes.
        self.__dict__.update(registration=registration, events=events)

    @property
    def registration(self) -> Instrumentation:
        """Registration that the handler belongs to."""
        registration: Instrumentation = self.__dict__["registration"]
        return registration

    @classmethod
    def class_name(cls) -> str:
        """Return the name that LlamaIndex shows."""
        return cls.__name__

    def span_enter(
        self,
        id_: str,
        bound_args: BoundArguments,
        instance: Any | None = None,
        parent_id: str | None = None,
        tags: dict[str, Any] | None = None,
        **kwargs: Any,
    ) -> None:
        """Pass on a call that begins."""
        self.__dict__["events"].span_enter(id_, bound_args.arguments, instance, parent_id, tags)

    def span_exit(
        self,
        id_: str,
        bound_args: BoundArguments,
        instance: Any | None = None,
        result: Any | None = None,
        **kwargs: Any,
    ) -> None:
        """Pass on a call that returned."""
        self.__dict__["events"].span_exit(id_, bound_args.arguments, instance, result)

    def span_drop(
        self,
        id_: str,
        bound_args: BoundArguments,
        instance: Any | None = None,
        err: BaseException | None = None,
        **kwargs: Any,
    ) -> None:
        """Pass on a call that raised."""
        self.__dict__["events"].span_drop(id_, err)

    def new_span(self, *args: Any, **kwargs: Any) -> BaseSpan | None:
        """Do nothing: runs are kept elsewhere."""
        return None

    def prepare_to_exit_span(self, *args: Any, **kwargs: Any) -> BaseSpan | None:
        """Do nothing."""
        return None

    def prepare_to_drop_span(self, *args: Any, **kwargs: Any) -> BaseSpan | None:
        """Do nothing."""
        return None


_METHODS = {
    LLMChatStartEvent.__name__: "model_called",
    LLMCompletionStartEvent.__name__: "model_called",
    LLMChatEndEvent.__name__: "model_replied",
    LLMCompletionEndEvent.__name__: "model_replied",
    ExceptionEvent.__name__: "model_failed",
    # Of the workflows' own package, which not every version has.
    "SpanCancelledEvent": "cancelled",
}
"""Methods of `Events` by the name of an event's class; other events are ignored."""


class RagEvalEventHandler(BaseEventHandler):
    """Passes on calls of models and cancelled workflows; single tokens are ignored.

    Args:
        events: Where it goes.
    """

    def __init__(self, events: Events) -> None:
        super().__init__()
        self.__dict__["events"] = events

    @classmethod
    def class_name(cls) -> str:
        """Return the name that LlamaIndex shows."""
        return cls.__name__

    def handle(self, event: BaseEvent, **kwargs: Any) -> None:
        """Handle an event of a call."""
        method = _METHODS.get(type(event).__name__)
        if method is not None:
            getattr(self.__dict__["events"], method)(event)
