"""Roles of LlamaIndex's spans, and the attributes that ours get of them."""

from __future__ import annotations

import functools
import itertools
import json
from collections.abc import Iterable, Mapping, Sequence
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

from rag_eval_hooks import semconv
from rag_eval_hooks.capture.records import Facts, Run, RunKind

__all__ = [
    "INPUT_TOKENS",
    "OUTPUT_TOKENS",
    "Described",
    "Role",
    "arguments_text",
    "call_id_of",
    "described",
    "facts_of",
    "field",
    "first",
    "is_step_of_request",
    "model_facts",
    "name_of",
    "reply_facts",
    "role_of",
    "span_values",
    "tool_calls_of",
]

_ID_CHARS = 37
"""A dash and a UUID, at the end of every span id."""
_SCALARS = (str, int, float, bool)


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
_METHODS: Sequence[tuple[type, Role, tuple[str, ...]]] = (
    (BaseRetriever, Role.RETRIEVAL, ("retrieve", "aretrieve")),
    (BaseRetriever, Role.PART, ("_retrieve", "_aretrieve")),
    (BaseQueryEngine, Role.ENGINE, ("query", "aquery")),
    (BaseChatEngine, Role.ENGINE, ("chat", "achat")),
    (BaseQueryEngine, Role.PART, ("_query", "_aquery")),
    (BaseLLM, Role.PART, ("predict", "apredict", "_prepare_chat_with_tools")),
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
        name = field(instance.metadata, "name")
        return span_values({semconv.GEN_AI_TOOL_NAME: name, semconv.GEN_AI_TOOL_TYPE: "function"})
    if role is Role.WORKFLOW:
        # An agent has a name, a team of agents the name of its first.
        return span_values({semconv.GEN_AI_AGENT_NAME: first([instance], ("name", "root_agent"))})
    if role is Role.EMBEDDING:
        return span_values({semconv.GEN_AI_REQUEST_MODEL: instance.model_name})
    return {}


def call_id_of(run: Run, arguments: Mapping[str, Any]) -> str | None:
    """Return the id of a tool's call: an agent's step has it, and the tool is called in that."""
    if run.kind is not RunKind.TOOL:
        call_id = getattr(arguments["ev"], "tool_id", None) if "ev" in arguments else None
        return call_id if isinstance(call_id, str) else None
    steps = itertools.takewhile(lambda outer: outer.kind is not RunKind.TOOL, run.ancestors())
    ids = (outer.facts.get(semconv.GEN_AI_TOOL_CALL_ID) for outer in steps)
    return next((str(call_id) for call_id in ids if call_id is not None), None)


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


def tool_calls_of(response: Any) -> list[dict[str, Any]]:
    """Return id, name and arguments of the tool calls in a reply."""
    blocks = getattr(getattr(response, "message", None), "blocks", None) or ()
    return [
        {"id": block.tool_call_id, "name": block.tool_name, "arguments": block.tool_kwargs}
        for block in blocks
        if getattr(block, "block_type", None) == "tool_call"
    ]


def arguments_text(arguments: Mapping[str, Any]) -> str:
    """Return the arguments of a tool's call as JSON; what is no JSON value as text."""
    flat = {**arguments, **(arguments.get("kwargs") or {})}
    flat.pop("kwargs", None)
    return json.dumps(flat, default=str, ensure_ascii=False)


def span_values(facts: Mapping[str, Any]) -> Facts:
    """Return the attributes whose values a span can carry."""
    return {key: value for key, value in facts.items() if isinstance(value, _SCALARS)}


INPUT_TOKENS = ("prompt_tokens", "input_tokens", "prompt_eval_count")
OUTPUT_TOKENS = ("completion_tokens", "output_tokens", "eval_count")


def first(holders: Iterable[Any], names: Sequence[str]) -> Any:
    """Return the first field of these names that any of the holders has."""
    for holder in holders:
        for name in names:
            if holder is not None and (value := field(holder, name)) is not None:
                return value
    return None


def field(holder: Any, name: str) -> Any:
    """Return a field of a mapping or an object, or None."""
    if type(holder) is dict or isinstance(holder, Mapping):
        return holder.get(name)
    return getattr(holder, name, None)
