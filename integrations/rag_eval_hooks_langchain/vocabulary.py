"""Copies objects of LangChain and LangGraph, and reads their values for span attributes."""

from __future__ import annotations

import ast
import re
from collections.abc import Mapping, Sequence
from contextlib import suppress
from itertools import islice
from typing import Any

from langchain_core.documents import Document
from langchain_core.messages import BaseMessage
from langchain_core.outputs import ChatGeneration, Generation
from langchain_core.prompt_values import PromptValue

from rag_eval_hooks import semconv
from rag_eval_hooks.capture import attributes
from rag_eval_hooks.capture.attributes import facts_of, first, request_facts
from rag_eval_hooks.capture.copied import FormattedPrompt, Message, Update, content_text
from rag_eval_hooks.capture.records import Facts
from rag_eval_hooks.capture.snapshots import Copier, Form
from rag_eval_hooks.context import scalars, score_in
from rag_eval_hooks.sample import Context

_MAX_METADATA = 200
# Maximum number of characters of a list of documents that a tool wrote as text.
_MAX_WRITTEN = 200_000
_BEGINNING = 20
# Limits the code between texts, because the parser holds the interpreter's lock.
_TEXTS_AND_CODE = re.compile(
    r"""(?:[^'"]{0,200}+(?<!\w)(?:'(?:[^'\\]|\\.)*+'|"(?:[^"\\]|\\.)*+")){1,4000}+[^'"]{0,200}+""",
    re.DOTALL,
)
# An escape that `repr` does not write. The parser would warn the application.
_ODD_ESCAPE = re.compile(r"\\[^'\"nrtxuU]")
# Parts of a start event that `start_facts` reads.
TOLD = ("metadata", "invocation_params", "tool_call_id", "top_k")
_ROLES = {"human": "user", "ai": "assistant", "function": "tool"}
# LangChain and LangGraph give these tags to their steps.
_FRAMEWORKS_TAG = re.compile(
    r"(seq:step|graph:step|condition|branch|retry:attempt):-?\d+|branch:default|map:key:.*"
    r"|langsmith:hidden|(langsmith:)?nostream"
)
# If a provider sends no message id, LangChain creates an id with one of these prefixes.
_LANGCHAIN_IDS = ("run-", "lc_")


def form_of(kind: type) -> Form | None:
    for base, form in _FORMS:
        if issubclass(kind, base):
            return form
    fields = set(getattr(kind, "__dataclass_fields__", {}))
    if kind.__name__ == "Command" and {"update", "goto", "graph"} <= fields:
        return _command
    return None


def _document(copier: Copier, document: Any, depth: int) -> Any:
    text, last = document.page_content, copier.known(document)
    if last is not None and last.text is text:
        return last
    metadata = document.metadata if isinstance(document.metadata, dict) else {}
    size = dict.__len__(metadata)
    most = copier.room(min(size, _MAX_METADATA), depth)
    held = scalars(metadata if most == size else dict(islice(dict.items(metadata), most)))
    copy = Context(text=copier.of(text), id=document.id, score=score_in(held), metadata=held)
    return copier.remember(document, copy)


def _message(copier: Copier, message: Any, depth: int) -> Any:
    # Pydantic looks up missing fields slowly.
    held = message.__dict__
    content, last = held.get("content", ""), copier.known(message)
    if last is None or last.content is not content:
        content = copier.of(content, depth - 1)
    if last is not None and last.content is content:
        return last
    copier.room(0, depth)
    kind = held.get("type", "").removesuffix("MessageChunk").lower()
    role = str(held.get("role") or _ROLES.get(kind, kind))
    copy = Message(role, content, held.get("name"), held.get("tool_calls") or ())
    if role == "tool":
        copy.call_id, copy.failed = held.get("tool_call_id"), held.get("status") == "error"
    if "artifact" in held:
        copy.artifact = copier.of(held["artifact"], depth - 1)
    return copier.remember(message, copy)


def _prompt(copier: Copier, prompt: Any, depth: int) -> Any:
    messages = getattr(prompt, "messages", None)
    if messages is None:
        return FormattedPrompt([Message("user", copier.of(getattr(prompt, "text", "")))])
    return FormattedPrompt(copier.of(messages, depth - 1))


def _command(copier: Copier, command: Any, depth: int) -> Any:
    hands_over = bool(command.goto or command.graph)
    return Update(copier.of(command.update, depth - 1), hands_over)


_FORMS: tuple[tuple[type, Form], ...] = (
    (Document, _document),
    (BaseMessage, _message),
    (PromptValue, _prompt),
)


def written_documents(text: str) -> Any:
    # Agents convert a tool's list of documents to text with `repr`.
    if not text.startswith("[") or "Document(" not in text[:_BEGINNING] or len(text) > _MAX_WRITTEN:
        return None
    if not _TEXTS_AND_CODE.fullmatch(text) or _ODD_ESCAPE.search(text.replace("\\\\", "")):
        return None
    with suppress(KeyError, SyntaxError, TypeError, ValueError, RecursionError, MemoryError):
        return _literal(ast.parse(text, mode="eval").body)
    return None


def _literal(node: ast.expr) -> Any:
    if isinstance(node, ast.List | ast.Tuple):
        values = map(_literal, node.elts)
        return tuple(values) if isinstance(node, ast.Tuple) else list(values)
    if isinstance(node, ast.Dict):
        return {_literal(k): _literal(v) for k, v in zip(node.keys, node.values, strict=True) if k}
    if isinstance(node, ast.Call) and ast.unparse(node.func) == "Document":
        given = {one.arg: one.value for one in node.keywords}
        ast.literal_eval(given["page_content"])  # raises for a name in place of a text
        return Context.of({name: _literal(value) for name, value in given.items()})
    if isinstance(node, ast.Call) and len(node.args) == 1 and not node.keywords:
        return _literal(node.args[0])  # a number of NumPy, or an id
    try:
        return ast.literal_eval(node)
    except ValueError:
        return ast.unparse(node)  # metadata may hold other objects, such as dates


def class_name(serialized: Mapping[str, Any] | None) -> str | None:
    described = serialized or {}
    path = described.get("id")
    name = path[-1] if path else described.get("name")
    return None if name is None else str(name)


def reply_text(reply: Generation | None) -> str | None:
    if isinstance(reply, ChatGeneration):
        return content_text(reply.message.content) or None
    return None if reply is None else reply.text or None


def reply_facts(replies: Sequence[Generation]) -> Facts:
    messages = [getattr(reply, "message", None) for reply in replies]
    described = [getattr(message, "response_metadata", None) for message in messages]
    choices = zip(described, (reply.generation_info for reply in replies), strict=True)
    message = next(iter(messages), None)
    name = getattr(message, "id", None)
    provider_id = {} if str(name).startswith(_LANGCHAIN_IDS) else {"id": name}
    usage = getattr(message, "usage_metadata", None)
    return attributes.reply_facts([*described[:1], usage, provider_id], list(choices))


def start_facts(
    kind: str, name: str, serialized: Mapping[str, Any] | None, event: Mapping[str, Any]
) -> Facts:
    metadata = event.get("metadata") or {}
    values: Mapping[str, Any]
    if kind == "model":
        asked = event.get("invocation_params") or {}
        values = {
            semconv.GEN_AI_PROVIDER_NAME: metadata.get("ls_provider"),
            semconv.GEN_AI_REQUEST_MODEL: metadata.get("ls_model_name")
            or first([asked], ("model", "model_name")),
            **request_facts([asked, metadata, (serialized or {}).get("kwargs")]),
        }
    elif kind == "tool":
        values = {
            semconv.GEN_AI_TOOL_NAME: name,
            semconv.GEN_AI_TOOL_TYPE: "function",
            semconv.GEN_AI_TOOL_CALL_ID: event.get("tool_call_id"),
        }
    elif kind == "retriever":
        store = metadata.get("ls_vector_store_provider")
        values = {
            semconv.GEN_AI_DATA_SOURCE_ID: str(store or name),
            semconv.GEN_AI_RETRIEVAL_TOP_K: event.get("top_k"),
        }
    else:
        is_agent = metadata.get("ls_integration") == "langchain_create_agent"
        agent = metadata.get("lc_agent_name") or (name if is_agent else None)
        values = {semconv.GEN_AI_AGENT_NAME: agent}
    return facts_of(values)


def users_tags(tags: Sequence[str]) -> list[str]:
    return [tag for tag in tags if not _FRAMEWORKS_TAG.fullmatch(tag)]
