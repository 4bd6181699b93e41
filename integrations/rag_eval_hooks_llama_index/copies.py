"""Bounded copies of LlamaIndex's objects, made on the request's thread to be read later."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from llama_index.core.base.llms.types import ChatMessage, ChatResponse, CompletionResponse
from llama_index.core.base.response.schema import (
    AsyncStreamingResponse,
    PydanticResponse,
    Response,
    StreamingResponse,
)
from llama_index.core.chat_engine.types import AgentChatResponse, StreamingAgentChatResponse
from llama_index.core.schema import BaseComponent, BaseNode, NodeWithScore, QueryBundle
from llama_index.core.tools import ToolOutput
from llama_index.core.workflow import Context, Event, Workflow

from rag_eval_hooks.capture import CaptureOptions, Recorder, Run
from rag_eval_hooks.capture.snapshots import (
    LATE_LEVELS,
    LATE_NODES,
    Copier,
    Cut,
    Form,
    Opaque,
    Record,
)
from rag_eval_hooks_llama_index.values import is_framework_class

__all__ = ["Copies"]

_FORMS: dict[type, Form] = {}
"""How objects are copied, by their class."""
_MOST_METADATA = 200
"""Entries of a node's metadata that are copied."""
_OPAQUE = Opaque()


class Copies:
    """Copies what events show, and reads the copies off the request's thread.

    Args:
        recorder: Limits the characters that wait to be read.
        options: Of all interactions that have none of their own.
    """

    def __init__(self, recorder: Recorder, options: CaptureOptions) -> None:
        self._recorder = recorder
        self._options = options

    def of(self, run: Run, value: Any) -> Any:
        """Return a copy of a value that may change before it is read."""
        copier = self._copier(run)
        copy = copier.of(value)
        return Cut(value) if copier.is_cut or copier.is_shallow else copy

    def defer(self, run: Run, event: str, read: Callable[..., None], *values: Any) -> None:
        """Leave an event to be read later.

        Args:
            run: The run that the event is about.
            event: The name under which a failure is counted.
            read: Called with the run and the values.
            values: Copies, and arguments that nobody changes.
        """
        self._recorder.defer(run, event, self._read, run, read, values)

    def _read(self, run: Run, read: Callable[..., None], values: tuple[Any, ...]) -> None:
        read(run, *[self._whole(run, value) for value in values])

    def _whole(self, run: Run, value: Any) -> Any:
        """Return a copy of a value that was too large for the request's thread."""
        if not isinstance(value, Cut):
            return value
        copier = self._copier(run, nodes=LATE_NODES)
        copy = copier.of(value.value, LATE_LEVELS)
        if copier.is_cut:
            run.interaction.left_out.add("contexts")
        return copy

    def _copier(self, run: Run, **limits: int) -> Copier:
        interaction = run.interaction
        own = None if interaction.options is None else interaction.options.as_context
        return Copier(
            interaction.snapshots,
            _form_of,
            _FORMS,
            own or self._options.as_context,
            self._recorder.most_waiting,
            **limits,
        )


def _form_of(kind: type) -> Form | None:
    for bases, form in _KNOWN:
        if issubclass(kind, bases):
            return form
    return _opaque if is_framework_class(kind) else None


def _with(value: Any, changes: dict[str, Any]) -> Any:
    """Return a shallow copy of a model or dataclass with other fields, without validation."""
    made = object.__new__(type(value))
    for name in ("__pydantic_fields_set__", "__pydantic_extra__", "__pydantic_private__"):
        if hasattr(type(value), name):
            object.__setattr__(made, name, getattr(value, name, None))
    object.__setattr__(made, "__dict__", {**value.__dict__, **changes})
    return made


def _node(copier: Copier, node: Any, depth: int) -> Any:
    copier.room(0, depth)
    copier.of(node.__dict__.get("text"))
    metadata = node.metadata
    if len(metadata) > _MOST_METADATA:
        metadata = dict(list(metadata.items())[:_MOST_METADATA])
    excluded = list(node.excluded_llm_metadata_keys)
    changes = {"metadata": dict(metadata), "excluded_llm_metadata_keys": excluded}
    return copier.remember(node, _with(node, changes))


def _scored_node(copier: Copier, found: Any, depth: int) -> Any:
    return _with(found, {"node": copier.of(found.node, depth)})


def _response(copier: Copier, response: Any, depth: int) -> Any:
    """Copy text and sources; a stream stays with the application."""
    held = response.__dict__
    kept = ("response", "response_txt", "source_nodes")
    changes = {name: copier.of(held[name], depth - 1) for name in kept if name in held}
    return _with(response, {**dict.fromkeys(held), **changes})


def _tool_output(copier: Copier, output: Any, depth: int) -> Any:
    raw = copier.of(output.raw_output, depth - 1)
    return copier.remember(output, _with(output, {"raw_output": raw, "raw_input": {}}))


def _event(copier: Copier, event: Any, depth: int) -> Any:
    declared, free = event.__dict__, event.items()
    held = copier.mapping(event, [*declared.items(), *free], len(declared) + len(free), depth)
    return Record(type(event), held, frozenset(held)) if type(held) is dict else held


def _message(copier: Copier, message: Any, _: int) -> Any:
    for block in message.blocks:
        if type(text := getattr(block, "text", None)) is str:
            copier.of(text)
    return message


def _itself(_: Copier, value: Any, __: int) -> Any:
    return value


def _opaque(_: Copier, __: Any, ___: int) -> Any:
    return _OPAQUE


_KNOWN: tuple[tuple[type | tuple[type, ...], Form], ...] = (
    (NodeWithScore, _scored_node),
    (BaseNode, _node),
    (
        (
            *(Response, PydanticResponse, StreamingResponse, AsyncStreamingResponse),
            *(AgentChatResponse, StreamingAgentChatResponse),
        ),
        _response,
    ),
    (ToolOutput, _tool_output),
    (Event, _event),
    (ChatMessage, _message),
    ((QueryBundle, ChatResponse, CompletionResponse), _itself),
    ((BaseComponent, Context, Workflow), _opaque),
)
