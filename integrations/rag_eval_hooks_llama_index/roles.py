"""Roles of LlamaIndex's spans."""

from __future__ import annotations

import functools
from collections.abc import Sequence
from enum import Enum, auto
from typing import Any, NamedTuple

from llama_index.core.base.base_query_engine import BaseQueryEngine
from llama_index.core.base.base_retriever import BaseRetriever
from llama_index.core.base.embeddings.base import BaseEmbedding
from llama_index.core.base.llms.base import BaseLLM
from llama_index.core.chat_engine.types import BaseChatEngine, StreamingAgentChatResponse
from llama_index.core.postprocessor.types import BaseNodePostprocessor
from llama_index.core.response_synthesizers import BaseSynthesizer
from llama_index.core.schema import TransformComponent
from llama_index.core.tools import BaseTool
from llama_index.core.workflow import Workflow

from rag_eval_hooks.capture.records import RunKind
from rag_eval_hooks_llama_index.facts import field

__all__ = ["Described", "Role", "described", "is_step_of_request", "name_of", "role_of"]

_ID_CHARS = 37
"""A dash and a UUID, at the end of every span id."""


class Role(Enum):
    """Role of a span, as far as capture cares."""

    CHAIN = auto()
    ENGINE = auto()
    RETRIEVAL = auto()
    EMBEDDING = auto()
    POSTPROCESSING = auto()
    TOOL = auto()
    MODEL = auto()
    WRITER = auto()
    """Reads a chat's stream for its user, in a thread or task of its own."""
    WORKFLOW = auto()
    SYNTHESIS = auto()
    PART = auto()
    """A part of the call around it, such as of an embedding, a query or the preparing of documents:
    no run of its own."""

    @property
    def kind(self) -> RunKind:
        """Kind of its run; a model's run is one once it was really called."""
        return _RUN_KINDS.get(self, RunKind.CHAIN)


_RUN_KINDS = {
    Role.RETRIEVAL: RunKind.RETRIEVER,
    Role.EMBEDDING: RunKind.EMBEDDING,
    Role.TOOL: RunKind.TOOL,
    Role.POSTPROCESSING: RunKind.RERANKER,
}
_EMBEDDING = tuple(
    f"{prefix}{name}"
    for prefix in ("get_", "aget_")
    for name in ("query_embedding", "text_embedding", "text_embedding_batch")
)
_WRITING = ("write_response_to_history", "awrite_response_to_history")
_METHODS: Sequence[tuple[type, Role, tuple[str, ...]]] = (
    (BaseRetriever, Role.RETRIEVAL, ("retrieve", "aretrieve")),
    (BaseRetriever, Role.PART, ("_retrieve", "_aretrieve")),
    (BaseQueryEngine, Role.ENGINE, ("query", "aquery")),
    (BaseChatEngine, Role.ENGINE, ("chat", "achat")),
    (BaseQueryEngine, Role.PART, ("_query", "_aquery")),
    (BaseLLM, Role.PART, ("predict", "apredict", "_prepare_chat_with_tools")),
    (BaseEmbedding, Role.EMBEDDING, _EMBEDDING),
    (StreamingAgentChatResponse, Role.WRITER, _WRITING),
    (BaseNodePostprocessor, Role.POSTPROCESSING, ()),
    (BaseTool, Role.TOOL, ()),
    (BaseLLM, Role.MODEL, ()),
    (Workflow, Role.WORKFLOW, ("run",)),
    (BaseSynthesizer, Role.SYNTHESIS, ()),
    (BaseEmbedding, Role.PART, ()),
    (TransformComponent, Role.PART, ()),
)
"""Base classes with the methods that count, none named for all; the first that fits tells."""

_STEPS_OF_REQUESTS = frozenset(
    {
        *(name for *_, methods in _METHODS for name in methods if name != "run"),
        *("stream_chat", "astream_chat", "synthesize", "asynthesize", "get_response"),
        *("aget_response", "get_response_from_messages", "aget_response_from_messages"),
        *("call", "acall", "postprocess_nodes", "apostprocess_nodes", "stream", "astream"),
        *("complete", "acomplete", "structured_predict", "astructured_predict"),
    }
)
"""Methods of which LlamaIndex itself makes spans. Not `run`: old versions leave the span of a
workflow's run current in the code that started it."""


def is_step_of_request(span_id: str) -> bool:
    """Return whether a span is one of a request that LlamaIndex answers, by the name in its id."""
    return span_id[:-_ID_CHARS].rpartition(".")[2] in _STEPS_OF_REQUESTS


class Described(NamedTuple):
    """Traits of a span that its name and its object's class decide."""

    role: Role
    owner: str
    method: str


def described(span_id: str, owner: type) -> Described:
    """Return role, class and method of a span, such as `RetrieverQueryEngine` and `query`."""
    return _described(span_id[:-_ID_CHARS], owner)


@functools.lru_cache(maxsize=4096)
def _described(name: str, owner: type) -> Described:
    written, _, method = name.rpartition(".")
    return Described(role_of(owner, method), written, method)


def role_of(owner: type, method: str) -> Role:
    """Return the role of a method of a class."""
    for base, role, methods in _METHODS:
        if issubclass(owner, base) and (not methods or method in methods):
            return role
    return Role.CHAIN


def name_of(role: Role, instance: Any) -> str | None:
    """Return a tool's own name, else the class's; None for a function."""
    if role is Role.TOOL and isinstance(name := field(instance.metadata, "name"), str):
        return name
    return None if instance is None else type(instance).__name__
