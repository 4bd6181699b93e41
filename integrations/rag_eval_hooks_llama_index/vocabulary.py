"""Copies objects of LlamaIndex, and reads their values for span attributes."""

from __future__ import annotations

import dataclasses
import functools
import os
import sys
from collections.abc import Mapping, Sequence
from copy import copy
from dataclasses import dataclass
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

from rag_eval_hooks import semconv
from rag_eval_hooks.capture import attributes
from rag_eval_hooks.capture.attributes import facts_of, field, first
from rag_eval_hooks.capture.copied import Message
from rag_eval_hooks.capture.readings import as_json
from rag_eval_hooks.capture.records import Facts
from rag_eval_hooks.capture.snapshots import Copier, Form, Opaque, Record
from rag_eval_hooks.context import READABLE_MAPPING, scalars
from rag_eval_hooks.sample import Context

STREAMING = (StreamingResponse, AsyncStreamingResponse)
_RESPONSES = (*STREAMING, Response, PydanticResponse, AgentChatResponse, StreamingAgentChatResponse)
_MAX_METADATA = 200
_OPAQUE = Opaque()


@dataclass(frozen=True, slots=True, kw_only=True)
class NodeContext(Context):
    # A copy of the node if the prompt also shows the node's metadata, else None.
    node: BaseNode | None = dataclasses.field(default=None, compare=False, repr=False)

    @property
    def shown(self) -> str:
        mode = MetadataMode.LLM
        return self.text if self.node is None else str(self.node.get_content(metadata_mode=mode))


@dataclass(slots=True, eq=False)
class Reply(Message):
    sources: Sequence[Any] = ()
    streams: bool = False


def form_of(kind: type) -> Form | None:
    for bases, form in _FORMS:
        if issubclass(kind, bases):
            return form
    return _opaque if _is_framework_class(kind) else None


def is_of_framework(value: Any) -> bool:
    if isinstance(value, list):
        return bool(value) and all(map(is_of_framework, value))
    is_event = isinstance(value, Record) and _is_framework_class(value.kind)
    return is_event or isinstance(value, Message)


@functools.lru_cache(maxsize=1024)
def _is_framework_class(kind: type) -> bool:
    # An application may also have a package `workflows`.
    module = kind.__module__
    if module.startswith("llama_index."):
        return True
    known = getattr(sys.modules.get(module), "__file__", None) or ""
    folder = os.path.dirname(sys.modules[Event.__module__].__file__ or "")
    return module.startswith("workflows.") and known.startswith(folder + os.sep)


def _node(copier: Copier, node: Any, depth: int, score: Any = None) -> Any:
    is_plain = type(node).get_content is TextNode.get_content
    text = copier.of(node.text if is_plain else node.get_content())
    most = copier.room(min(len(node.metadata), _MAX_METADATA), depth)
    metadata = dict(islice(node.metadata.items(), most))
    kept = None
    if isinstance(node, TextNode) and not metadata.keys() <= set(node.excluded_llm_metadata_keys):
        kept = copy(node)
        kept.__dict__["metadata"] = metadata
    return NodeContext(
        text=text,
        id=node.node_id,
        score=None if score is None else float(score),
        metadata={str(key): value for key, value in scalars(metadata).items()},
        node=kept,
    )


def _response(copier: Copier, response: Any, depth: int) -> Any:
    # Do not copy a stream, because only the application may read it.
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
    held = copier.container(event, [*declared.items(), *free], len(declared) + len(free), depth)
    return Record(type(event), held, frozenset(held)) if type(held) is dict else held


def _opaque(_: Copier, __: Any, ___: int) -> Any:
    return _OPAQUE


_FORMS: tuple[tuple[type | tuple[type, ...], Form], ...] = (
    (NodeWithScore, lambda copier, found, depth: _node(copier, found.node, depth, found.score)),
    (BaseNode, _node),
    (_RESPONSES, _response),
    (ToolOutput, _tool_output),
    (Event, _event),
    (ChatMessage, _message),
    (QueryBundle, lambda copier, query, _: Message("user", copier.of(query.query_str))),
    (ChatResponse, lambda copier, reply, depth: _message(copier, reply.message, depth)),
    (CompletionResponse, lambda copier, reply, _: Message("assistant", copier.of(reply.text))),
    ((BaseComponent, WorkflowContext, Workflow), _opaque),
)


def model_facts(described: Mapping[str, Any], span_id: str | None) -> Facts:
    # `span_id` contains the class and method of the call.
    method = str(span_id).partition("-")[0].rpartition(".")[2]
    streams = method.removeprefix("a").startswith("stream")
    provider = str(described.get("class_name") or "").lower().removesuffix("_llm")
    return facts_of(
        {
            semconv.GEN_AI_PROVIDER_NAME: provider or None,
            semconv.GEN_AI_REQUEST_MODEL: first([described], ("model", "model_name")),
            semconv.GEN_AI_REQUEST_STREAM: streams or None,
        }
    )


def reply_facts(response: Any) -> Facts:
    raw = field(response, "raw")
    holders = [field(response, "additional_kwargs"), raw, field(raw, "usage")]
    choices = ([choice, raw] for choice in field(raw, "choices") or (None,))
    return attributes.reply_facts(holders, choices)


def tool_calls_of(response: Any) -> list[dict[str, Any]]:
    blocks = getattr(getattr(response, "message", None), "blocks", None) or ()
    return [
        {"id": block.tool_call_id, "name": block.tool_name, "arguments": block.tool_kwargs}
        for block in blocks
        if getattr(block, "block_type", None) == "tool_call"
    ]


def arguments_text(arguments: Mapping[str, Any]) -> str | None:
    flat = {**arguments, **(arguments.get("kwargs") or {})}
    flat.pop("kwargs", None)
    return as_json({key: one for key, one in flat.items() if not isinstance(one, Opaque)})


def result_text(result: Any) -> str | None:
    if isinstance(result, Opaque):
        return None
    return result.text if isinstance(result, Message) else str(result)


def metadata_of(tags: Any) -> dict[str, Any]:
    held = tags.items() if isinstance(tags, READABLE_MAPPING) else ()
    named = {str(key): value for key, value in held}
    return {k: v for k, v in named.items() if not k.startswith("llamaindex.") and k != "tags"}


def labels_of(tags: Any) -> tuple[str, ...]:
    labels = tags.get("tags") if isinstance(tags, READABLE_MAPPING) else None
    if isinstance(labels, list | tuple | set | frozenset):
        return tuple(map(str, labels))
    return () if labels is None else (str(labels),)
