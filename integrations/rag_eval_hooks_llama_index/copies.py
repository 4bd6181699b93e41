"""Bounded copies of LlamaIndex's objects, made on the request's thread to be read later."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from copy import copy
from dataclasses import dataclass, field
from itertools import islice
from typing import Any

from llama_index.core.base.llms.types import ChatMessage, ChatResponse, CompletionResponse
from llama_index.core.base.response.schema import (
    AsyncStreamingResponse,
    PydanticResponse,
    Response,
    StreamingResponse,
)
from llama_index.core.chat_engine.types import AgentChatResponse, StreamingAgentChatResponse
from llama_index.core.schema import (
    BaseComponent,
    BaseNode,
    MetadataMode,
    NodeWithScore,
    QueryBundle,
    TextNode,
)
from llama_index.core.tools import ToolOutput
from llama_index.core.workflow import Context as WorkflowContext
from llama_index.core.workflow import Event, Workflow

from rag_eval_hooks.capture.copied import Message
from rag_eval_hooks.capture.snapshots import (
    Copier,
    Form,
    Opaque,
    Record,
)
from rag_eval_hooks.context import scalars
from rag_eval_hooks.sample import Context
from rag_eval_hooks_llama_index.values import STREAMING, is_framework_class

__all__ = ["NodeContext", "Reply", "form_of", "plain"]

_MAX_METADATA = 200
"""Entries of a node's metadata that are copied."""
_OPAQUE = Opaque()


@dataclass(frozen=True, slots=True, kw_only=True)
class NodeContext(Context):
    """Copy of a node."""

    # A node whose metadata a model sees, too, and its fields at the time.
    node: BaseNode | None = field(default=None, compare=False, repr=False)
    fields: Mapping[str, Any] = field(default_factory=dict, compare=False, repr=False)

    @property
    def shown(self) -> str:
        """The text in the form in which a model is shown it."""
        if self.node is None:
            return self.text
        made = copy(self.node)
        object.__setattr__(made, "__dict__", dict(self.fields))
        return str(made.get_content(metadata_mode=MetadataMode.LLM))


def plain(contexts: Iterable[Context]) -> list[Context]:
    """Return contexts without the copies of nodes."""
    return [
        Context(text=one.text, id=one.id, score=one.score, metadata=one.metadata)
        for one in contexts
    ]


@dataclass(slots=True, eq=False)
class Reply(Message):
    """Copy of a response of an engine or a synthesizer."""

    sources: Sequence[Any] = ()
    streams: bool = False


def form_of(kind: type) -> Form | None:
    """Return how an object of a class is copied; None for classes that are not LlamaIndex's."""
    for bases, form in _KNOWN:
        if issubclass(kind, bases):
            return form
    return _opaque if is_framework_class(kind) else None


def _node(copier: Copier, node: Any, depth: int, score: Any = None) -> Any:
    copier.room(0, depth)
    is_plain = type(node).get_content is TextNode.get_content
    text = node.text if is_plain else node.get_content()
    metadata = dict(islice(node.metadata.items(), _MAX_METADATA))
    copier.of(text)
    excluded = node.excluded_llm_metadata_keys
    is_shown_more = isinstance(node, TextNode) and not metadata.keys() <= set(excluded)
    more = {**node.__dict__, "metadata": metadata} if is_shown_more else {}
    return NodeContext(
        text=text,
        id=node.node_id,
        score=None if score is None else float(score),
        metadata={str(key): value for key, value in scalars(metadata).items()},
        node=node if is_shown_more else None,
        fields=more,
    )


def _scored_node(copier: Copier, found: Any, depth: int) -> Any:
    return _node(copier, found.node, depth, found.score)


def _response(copier: Copier, response: Any, depth: int) -> Any:
    """Copy text and sources; a stream stays with the application."""
    held, streams = response.__dict__, isinstance(response, STREAMING)
    text = held.get("response_txt" if streams else "response")
    sources = copier.of(held.get("source_nodes"), depth - 1)
    sources = sources if isinstance(sources, list | tuple) else ()
    return Reply("assistant", copier.of(text, depth - 1), sources=sources, streams=streams)


def _tool_output(copier: Copier, output: Any, depth: int) -> Any:
    raw = copier.of(output.raw_output, depth - 1)
    text = copier.of(output.content or "")
    return Message("tool", text, artifact=raw, failed=output.is_error)


def _message(copier: Copier, message: Any, _: int) -> Any:
    text = copier.of(message.content or "")
    return Message(str(getattr(message.role, "value", message.role)), text)


def _event(copier: Copier, event: Any, depth: int) -> Any:
    declared, free = event.__dict__, event.items()
    held = copier.mapping(event, [*declared.items(), *free], len(declared) + len(free), depth)
    return Record(type(event), held, frozenset(held)) if type(held) is dict else held


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
    (QueryBundle, lambda copier, query, _: Message("user", copier.of(query.query_str))),
    (ChatResponse, lambda copier, reply, depth: _message(copier, reply.message, depth)),
    (CompletionResponse, lambda copier, reply, _: Message("assistant", copier.of(reply.text))),
    ((BaseComponent, WorkflowContext, Workflow), _opaque),
)
