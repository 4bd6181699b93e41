"""Copies of LangChain's and LangGraph's own objects, made on the request's thread."""

from __future__ import annotations

from itertools import islice
from typing import Any

from langchain_core.documents import Document
from langchain_core.messages import BaseMessage, HumanMessage
from langchain_core.prompt_values import PromptValue

from rag_eval_hooks.capture.copied import FormattedPrompt, Message, Update
from rag_eval_hooks.capture.snapshots import Copier, Form
from rag_eval_hooks.context import scalars, score_in
from rag_eval_hooks.sample import Context

__all__ = ["form_of"]

_MAX_METADATA = 200
"""Entries of a document's metadata that are copied."""
_ROLES = {"human": "user", "ai": "assistant", "function": "tool"}
"""Roles of the GenAI conventions that LangChain calls otherwise."""


def form_of(kind: type) -> Form | None:
    """Return how an object of a class is copied; None for classes that are not LangChain's."""
    for base, form in _FORMS:
        if issubclass(kind, base):
            return form
    if kind.__name__ == "Command" and {"update", "goto", "graph"} <= _fields(kind):
        return _command
    if any(base.__module__ == "langgraph.store.base" for base in kind.__mro__):
        return _stored
    return None


def _fields(kind: type) -> set[str]:
    return set(getattr(kind, "__dataclass_fields__", {}))


def _document(copier: Copier, document: Any, depth: int) -> Any:
    text, last = document.page_content, copier.known(document)
    if last is not None and last.text is text:
        return last
    metadata = document.metadata if isinstance(document.metadata, dict) else {}
    most = copier.room(min(dict.__len__(metadata), _MAX_METADATA), depth)
    held = scalars(dict(islice(dict.items(metadata), most)))
    copy = Context(text=copier.of(text), id=document.id, score=score_in(held), metadata=held)
    return copier.remember(document, copy)


def _message(copier: Copier, message: Any, depth: int) -> Any:
    # Pydantic is slow to say that it has no such field.
    held = message.__dict__
    content, last = copier.of(held.get("content", ""), depth - 1), copier.known(message)
    if last is not None and last.content is content:
        return last
    copier.room(0, depth)
    kind = held.get("type", "").removesuffix("MessageChunk").lower()
    copy = Message(
        role=str(held.get("role") or _ROLES.get(kind, kind)),
        content=content,
        name=held.get("name"),
        calls=held.get("tool_calls") or (),
        call_id=held.get("tool_call_id"),
        artifact=copier.of(held.get("artifact"), depth - 1),
        failed=held.get("status") == "error",
    )
    return copier.remember(message, copy)


def _prompt(copier: Copier, prompt: Any, depth: int) -> Any:
    messages, last = getattr(prompt, "messages", None), copier.known(prompt)
    if messages is None:
        messages = [] if last else [HumanMessage(getattr(prompt, "text", ""))]
    messages = copier.of(messages, depth - 1)
    if last is not None and (not messages or last.messages is messages):
        return last
    return copier.remember(prompt, FormattedPrompt(messages))


def _command(copier: Copier, command: Any, depth: int) -> Any:
    hands_over = bool(command.goto or command.graph)
    return Update(copier.of(command.update, depth - 1), hands_over)


def _stored(copier: Copier, item: Any, depth: int) -> Any:
    if not isinstance(value := getattr(item, "value", None), dict):
        return copier.of(object(), depth)
    held = {"score": getattr(item, "score", None), **value, "id": item.key}
    return copier.mapping(item, held.items(), len(held), depth)


_FORMS: tuple[tuple[type, Form], ...] = (
    (Document, _document),
    (BaseMessage, _message),
    (PromptValue, _prompt),
)
