"""Builds the attributes of a request's spans. Texts need the setting `capture_content`."""

from __future__ import annotations

import contextlib
import json
from collections.abc import Iterable, Mapping, Sequence
from enum import Enum
from functools import partial
from typing import Any, Final, TypeAlias
from urllib.parse import urlsplit

from rag_eval_hooks import semconv
from rag_eval_hooks.capture.records import Facts, Run, RunKind
from rag_eval_hooks.context import READABLE_MAPPING
from rag_eval_hooks.explanation import encodable
from rag_eval_hooks.redaction.redactor import STRUCTURE, Content, CutText
from rag_eval_hooks.sample import Context
from rag_eval_hooks.telemetry.span_limits import present

Contents: TypeAlias = dict[str, Content]
"""Span attributes before JSON encoding, because redaction needs the separate parts."""
_CUT: Final = " [...]"
_SYSTEM: Final = ("system", "developer")
_FINISH_REASONS: Final = {
    "end_turn": "stop",
    "function_call": "tool_call",
    "max_tokens": "length",
    "tool_calls": "tool_call",
    "tool_use": "tool_call",
}
_ENDPOINTS: Final = (
    *("base_url", "api_base", "openai_api_base", "azure_endpoint"),
    *("anthropic_api_url", "endpoint_url"),
)
INPUT_TOKENS: Final = ("input_tokens", "prompt_tokens", "prompt_eval_count")
OUTPUT_TOKENS: Final = ("output_tokens", "completion_tokens", "eval_count")
_FINISHES: Final = ("finish_reason", "stop_reason", "done_reason", "stopReason")
_PORTS: Final = {"http": 80, "https": 443}
_SCALARS = (str, int, float, bool)


def facts_of(values: Mapping[str, Any]) -> Facts:
    facts = {}
    for key, value in values.items():
        value = value.value if isinstance(value, Enum) else value
        is_texts = isinstance(value, tuple) and value and all(isinstance(v, str) for v in value)
        if is_texts or (isinstance(value, _SCALARS) and value != ""):
            facts[key] = value
    return facts


def request_facts(holders: Sequence[Any]) -> Facts:
    heat = first(holders, ("temperature", "ls_temperature"))
    is_number = isinstance(heat, int | float) and not isinstance(heat, bool)
    temperature = {semconv.GEN_AI_REQUEST_TEMPERATURE: float(heat)} if is_number else {}
    return {**temperature, **_server(first(holders, _ENDPOINTS))}


def _server(url: Any) -> Facts:
    text = "" if url is None else str(url)
    try:
        parts = urlsplit(text if "//" in text else f"//{text}")
        host, port = parts.hostname, parts.port or _PORTS.get(parts.scheme)
    except ValueError:
        return {}
    return facts_of({semconv.SERVER_ADDRESS: host, semconv.SERVER_PORT: port if host else None})


def reply_facts(holders: Sequence[Any], choices: Iterable[Sequence[Any]]) -> Facts:
    found = (first(choice, _FINISHES) for choice in choices)
    reasons = (one.value if isinstance(one, Enum) else one for one in found)
    return facts_of(
        {
            semconv.GEN_AI_RESPONSE_MODEL: first(holders, ("model_name", "model")),
            semconv.GEN_AI_RESPONSE_ID: first(holders, ("id",)),
            semconv.GEN_AI_FINISH_REASONS: tuple(r for r in reasons if isinstance(r, str) and r),
            semconv.GEN_AI_INPUT_TOKENS: first(holders, INPUT_TOKENS),
            semconv.GEN_AI_OUTPUT_TOKENS: first(holders, OUTPUT_TOKENS),
        }
    )


def first(holders: Iterable[Any], names: Sequence[str]) -> Any:
    for holder in holders:
        is_mapping = type(holder) is dict or isinstance(holder, Mapping)
        read = holder.get if is_mapping else partial(getattr, holder)
        for name in names:
            if (value := read(name, None)) is not None:
                return value
    return None


def field(holder: Any, name: str) -> Any:
    return first((holder,), (name,))


def plain(values: Mapping[str, Content], longest: int) -> dict[str, str | int | float | bool]:
    return {key: _written(value, longest) for key, value in values.items()}


def _written(value: Content, longest: int) -> str | int | float | bool:
    if isinstance(value, int | float):
        return value
    if isinstance(value, str):
        return str(_shortened(value, longest))
    # Shorten the texts, then drop items. The JSON stays valid at any length.
    each = longest
    while len(written := _json(value, each)) > longest and each:
        each //= 2
    while len(written) > longest and isinstance(value, list) and value:
        value = value[len(value) // 2 + 1 :]
        written = _json(value, each)
    return written if len(written) <= longest else "[]"


def _json(value: Any, longest: int) -> str:
    return json.dumps(_shortened(value, longest), ensure_ascii=False)


def _shortened(value: Any, longest: int) -> Any:
    if value is None or isinstance(value, int | float):
        return value
    if isinstance(value, READABLE_MAPPING):
        return {
            encodable(str(key)): item if key in STRUCTURE else _shortened(item, longest)
            for key, item in value.items()
        }
    if isinstance(value, list | tuple):
        return [_shortened(item, longest) for item in value]
    text = encodable(str(value))
    return text if len(text) <= longest else text[: max(0, longest - len(_CUT))] + _CUT[:longest]


def request_content(question: str | None, answer: str | None) -> Contents:
    return present(
        {
            semconv.INPUT_VALUE: question,
            semconv.OUTPUT_VALUE: answer,
            semconv.GEN_AI_INPUT_MESSAGES: [_message("user", question)] if question else None,
            semconv.GEN_AI_OUTPUT_MESSAGES: [_reply([_text(answer)])] if answer else None,
        }
    )


def content_of(run: Run, documents: Sequence[Context], most: int | None) -> Contents:
    if run.kind is RunKind.RETRIEVER:
        return _retrieval_content(run, documents, most)
    if run.kind is RunKind.MODEL:
        return _model_content(run)
    if run.kind is not RunKind.TOOL:
        return {}
    return present(
        {
            semconv.GEN_AI_TOOL_ARGUMENTS: _read(run.span_content.get("arguments")),
            semconv.GEN_AI_TOOL_RESULT: _read(run.span_content.get("result")),
        }
    )


def _retrieval_content(run: Run, documents: Sequence[Context], most: int | None) -> Contents:
    query = run.query
    content: Contents = present({semconv.GEN_AI_RETRIEVAL_QUERY: query, semconv.INPUT_VALUE: query})
    # Phoenix drops the whole list when one document lacks an id or a score.
    if documents and all(d.id is not None and d.score is not None for d in documents):
        content[semconv.GEN_AI_RETRIEVAL_DOCUMENTS] = [
            {"id": d.id, "score": d.score} for d in documents
        ]
    for index, document in enumerate(documents):
        prefix, metadata = f"{semconv.RETRIEVAL_DOCUMENTS}.{index}.document", document.metadata
        # Omit cut texts, because redaction cannot recognize them inside JSON.
        whole = {key: one for key, one in metadata.items() if not isinstance(one, CutText)}
        fields: dict[str, Any] = {
            "content": document.text,
            "id": document.id,
            "score": document.score,
            "metadata": whole or None,
        }
        named = present({f"{prefix}.{name}": one for name, one in fields.items()})
        if most is not None and len(content) + len(named) > most:
            # Each further attribute would evict one of the span's first attributes.
            break
        content |= named
    return content


def _model_content(run: Run) -> Contents:
    # A completion model's prompt has no roles.
    roles = run.roles if len(run.roles) == len(run.prompt) else ["user"] * len(run.prompt)
    prompt = list(zip(roles, run.prompt, strict=True))
    system = [_text(text) for role, text in prompt if role in _SYSTEM]
    messages = [_message(role, text) for role, text in prompt if text and role not in _SYSTEM]
    calls = run.span_content.get("tool_calls", ())
    parts = [_text(run.text)] if run.text else []
    for call in calls:
        named = {key: call.get(key) for key in ("id", "name", "arguments")}
        parts.append(present({"type": "tool_call", **named}))
    return present(
        {
            semconv.GEN_AI_SYSTEM_INSTRUCTIONS: system or None,
            semconv.GEN_AI_INPUT_MESSAGES: messages or None,
            semconv.GEN_AI_OUTPUT_MESSAGES: [_reply(parts, _finish_reason(run))] if parts else None,
            semconv.INPUT_VALUE: _joined(run.prompt),
            semconv.OUTPUT_VALUE: run.text,
        }
    )


def _joined(prompt: Sequence[str]) -> str:
    cut = next((n for n, text in enumerate(prompt, 1) if isinstance(text, CutText)), None)
    text = "\n".join(prompt[:cut])
    return text if cut is None else CutText(text)


def _read(text: str | None) -> Content | None:
    with contextlib.suppress(ValueError):
        value = None if text is None or isinstance(text, CutText) else json.loads(text)
        return value if isinstance(value, dict | list) else text
    return text


def _text(text: str) -> dict[str, Any]:
    return {"type": "text", "content": text}


def _message(role: str, text: str) -> dict[str, Any]:
    is_tool = role == "tool"
    part = {"type": "tool_call_response", "response": text} if is_tool else _text(text)
    return {"role": role, "parts": [part]}


def _reply(parts: Sequence[Mapping[str, Any]], reason: str = "stop") -> dict[str, Any]:
    return {"role": "assistant", "parts": list(parts), "finish_reason": reason}


def _finish_reason(run: Run) -> str:
    told = run.facts.get(semconv.GEN_AI_FINISH_REASONS)
    reason = told[0] if isinstance(told, tuple) else "stop" if run.text else "tool_call"
    return _FINISH_REASONS.get(reason.lower(), reason.lower())
