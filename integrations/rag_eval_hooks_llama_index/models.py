"""Reads span attributes and model replies from LlamaIndex's objects."""

from __future__ import annotations

import itertools
from collections.abc import Mapping
from typing import Any

from rag_eval_hooks import semconv
from rag_eval_hooks.capture.copied import Message
from rag_eval_hooks.capture.facts import facts_of, field, finish_reasons, first, request_facts
from rag_eval_hooks.capture.readings import as_json
from rag_eval_hooks.capture.records import Facts, Run, RunKind
from rag_eval_hooks.capture.snapshots import Opaque
from rag_eval_hooks.context import READABLE_MAPPING
from rag_eval_hooks_llama_index.spans import Call, Role

__all__ = [
    "INPUT_TOKENS",
    "OUTPUT_TOKENS",
    "arguments_text",
    "labels_of",
    "metadata_of",
    "model_facts",
    "reply_facts",
    "result_text",
    "start_facts",
    "tool_calls_of",
]

INPUT_TOKENS = ("prompt_tokens", "input_tokens", "prompt_eval_count")
OUTPUT_TOKENS = ("completion_tokens", "output_tokens", "eval_count")


def start_facts(run: Run, call: Call) -> Facts:
    role, instance = call.role, call.instance
    if role is Role.MODEL:
        return request_facts([instance])
    facts: dict[str, Any] = {}
    if role is Role.RETRIEVAL:
        facts[semconv.GEN_AI_DATA_SOURCE_ID] = type(instance).__name__
        facts[semconv.GEN_AI_RETRIEVAL_TOP_K] = getattr(instance, "similarity_top_k", None)
    elif role is Role.TOOL:
        facts[semconv.GEN_AI_TOOL_NAME] = field(instance.metadata, "name")
        facts[semconv.GEN_AI_TOOL_TYPE] = "function"
    elif role is Role.EMBEDDING:
        facts[semconv.GEN_AI_REQUEST_MODEL] = instance.model_name
    elif role is Role.WORKFLOW:
        # The first agent of a team names the run.
        facts[semconv.GEN_AI_AGENT_NAME] = first([instance], ("name", "root_agent"))
    call_id = getattr(call.event, "tool_id", None)
    if run.kind is RunKind.TOOL:
        # The enclosing step of the agent has the id.
        steps = itertools.takewhile(lambda outer: outer.kind is not RunKind.TOOL, run.ancestors())
        ids = (outer.facts.get(semconv.GEN_AI_TOOL_CALL_ID) for outer in steps)
        call_id = next(filter(None, ids), None)
    return facts_of({**facts, semconv.GEN_AI_TOOL_CALL_ID: call_id})


def model_facts(described: Mapping[str, Any], span_id: str | None) -> Facts:
    """Return provider and model from a model's settings, and whether the call streams.

    `span_id` contains the class and method of the call.
    """
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
    return facts_of(
        {
            semconv.GEN_AI_RESPONSE_MODEL: field(raw, "model"),
            semconv.GEN_AI_RESPONSE_ID: field(raw, "id"),
            semconv.GEN_AI_FINISH_REASONS: finish_reasons(
                [choice, raw] for choice in field(raw, "choices") or (None,)
            ),
            semconv.GEN_AI_INPUT_TOKENS: first(holders, INPUT_TOKENS),
            semconv.GEN_AI_OUTPUT_TOKENS: first(holders, OUTPUT_TOKENS),
        }
    )


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
