"""Roles of LlamaIndex's spans, and the attributes that ours get of them."""

from __future__ import annotations

import functools
from collections.abc import Iterable, Mapping, Sequence
from enum import Enum, auto
from typing import Any

from llama_index.core.base.base_retriever import BaseRetriever
from llama_index.core.base.embeddings.base import BaseEmbedding
from llama_index.core.base.llms.base import BaseLLM
from llama_index.core.chat_engine.types import StreamingAgentChatResponse
from llama_index.core.node_parser import NodeParser
from llama_index.core.postprocessor.types import BaseNodePostprocessor
from llama_index.core.tools import BaseTool
from llama_index.core.workflow import Workflow

from rag_eval_hooks import semconv
from rag_eval_hooks.capture.interaction import Facts, RunKind

__all__ = [
    "INPUT_TOKENS",
    "OUTPUT_TOKENS",
    "Role",
    "class_and_method",
    "facts_of",
    "field",
    "first",
    "model_facts",
    "name_of",
    "reply_facts",
    "role_of",
]

_ID_CHARS = 37
"""A dash and a UUID, at the end of every span id."""
_SCALARS = (str, int, float, bool)


class Role(Enum):
    """Role of a span, as far as capture cares."""

    CHAIN = auto()
    RETRIEVAL = auto()
    EMBEDDING = auto()
    POSTPROCESSING = auto()
    TOOL = auto()
    MODEL = auto()
    WRITER = auto()
    """Reads a chat's stream for its user, in a thread or task of its own."""
    WORKFLOW = auto()
    PART = auto()
    """A part of an embedding or of the splitting of texts: no run of its own."""

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
_METHODS: Sequence[tuple[type, Role, tuple[str, ...]]] = (
    (BaseRetriever, Role.RETRIEVAL, ("retrieve", "aretrieve")),
    (
        BaseEmbedding,
        Role.EMBEDDING,
        (
            "get_query_embedding",
            "aget_query_embedding",
            "get_text_embedding",
            "aget_text_embedding",
            "get_text_embedding_batch",
            "aget_text_embedding_batch",
        ),
    ),
    (
        StreamingAgentChatResponse,
        Role.WRITER,
        ("write_response_to_history", "awrite_response_to_history"),
    ),
    (BaseNodePostprocessor, Role.POSTPROCESSING, ()),
    (BaseTool, Role.TOOL, ()),
    (BaseLLM, Role.MODEL, ()),
    (Workflow, Role.WORKFLOW, ("run",)),
    (BaseEmbedding, Role.PART, ()),
    (NodeParser, Role.PART, ()),
)
"""Base classes with the methods that count, none named for all; the first that fits tells."""


def class_and_method(span_id: str) -> tuple[str, str]:
    """Return the two parts of a span's name, such as `RetrieverQueryEngine` and `query`."""
    owner, _, method = span_id[:-_ID_CHARS].rpartition(".")
    return owner, method


@functools.lru_cache(maxsize=4096)
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


def facts_of(role: Role, instance: Any) -> Facts:
    """Return the span attributes that an object has for its run."""
    if role is Role.RETRIEVAL:
        return span_values(
            {
                semconv.GEN_AI_DATA_SOURCE_ID: type(instance).__name__,
                semconv.GEN_AI_RETRIEVAL_TOP_K: getattr(instance, "similarity_top_k", None),
            }
        )
    if role is Role.TOOL:
        return span_values({semconv.GEN_AI_TOOL_NAME: field(instance.metadata, "name")})
    if role is Role.EMBEDDING:
        return span_values({semconv.GEN_AI_REQUEST_MODEL: instance.model_name})
    return {}


def model_facts(described: Mapping[str, Any]) -> Facts:
    """Return provider and model of a call, as the model describes itself."""
    provider = str(described.get("class_name") or "").lower().removesuffix("_llm")
    return span_values(
        {
            semconv.GEN_AI_PROVIDER_NAME: provider or None,
            semconv.GEN_AI_REQUEST_MODEL: first([described], ("model", "model_name")),
        }
    )


def reply_facts(response: Any) -> Facts:
    """Return model, tokens and id of a reply."""
    raw = field(response, "raw")
    holders = [field(response, "additional_kwargs"), raw, field(raw, "usage")]
    return span_values(
        {
            semconv.GEN_AI_RESPONSE_MODEL: field(raw, "model"),
            semconv.GEN_AI_RESPONSE_ID: field(raw, "id"),
            semconv.GEN_AI_INPUT_TOKENS: first(holders, INPUT_TOKENS),
            semconv.GEN_AI_OUTPUT_TOKENS: first(holders, OUTPUT_TOKENS),
        }
    )


def span_values(facts: Mapping[str, Any]) -> Facts:
    """Return the attributes whose values a span can carry."""
    return {key: value for key, value in facts.items() if isinstance(value, _SCALARS)}


INPUT_TOKENS = ("prompt_tokens", "input_tokens", "prompt_eval_count")
OUTPUT_TOKENS = ("completion_tokens", "output_tokens", "eval_count")


def first(holders: Iterable[Any], names: Sequence[str]) -> Any:
    """Return the first field of these names that any of the holders has."""
    found = (field(holder, name) for holder in holders for name in names)
    return next((value for value in found if value is not None), None)


def field(holder: Any, name: str) -> Any:
    """Return a field of a mapping or an object, or None."""
    return holder.get(name) if isinstance(holder, Mapping) else getattr(holder, name, None)
