"""Copies of LangChain's and LangGraph's own objects, made on the request's thread."""

from __future__ import annotations

from typing import Any

from langchain_core.documents import Document
from langchain_core.messages import BaseMessage, ToolMessage
from langchain_core.prompt_values import PromptValue

from rag_eval_hooks.capture.snapshots import Copier, Form
from rag_eval_hooks.context import scalars

__all__ = ["Command", "form_of"]

_MOST_METADATA = 200
"""Entries of a document's metadata that are copied."""


class Command:
    """Copy of a command of LangGraph: what it puts into the state, and where it goes."""

    def __init__(self, update: Any, command: Any) -> None:
        self.update = update
        self.goto = command.goto
        self.graph = command.graph


def form_of(kind: type) -> Form | None:
    """Return how an object of a class is copied; None for classes that are not LangChain's."""
    for base, form in _FORMS:
        if issubclass(kind, base):
            return form
    if kind.__name__ == "Command" and _has_fields(kind, "update", "goto", "graph"):
        return _command
    if any(base.__module__ == "langgraph.store.base" for base in kind.__mro__):
        return _stored
    return None


def _has_fields(kind: type, *names: str) -> bool:
    return set(names) <= getattr(kind, "__dataclass_fields__", {}).keys()


def _document(copier: Copier, document: Any, depth: int) -> Any:
    text, last = document.page_content, copier.known(document)
    if last is not None and last.page_content is text:
        return last
    copier.room(0, depth)
    metadata = document.metadata
    if len(metadata) > _MOST_METADATA:
        metadata = dict(list(metadata.items())[:_MOST_METADATA])
    return copier.remember(
        document,
        _made(
            Document,
            page_content=copier.of(text),
            metadata=scalars(metadata),
            id=document.id,
            type="Document",
        ),
    )


def _tool_message(copier: Copier, message: Any, depth: int) -> Any:
    last = copier.known(message)
    if last is not None and last.content is message.content:
        return last
    copier.of(message.content)
    held = {**message.__dict__, "artifact": copier.of(message.artifact, depth - 1)}
    return copier.remember(message, _made(ToolMessage, **held))


def _made(kind: type[Any], **held: Any) -> Any:
    """Return an object with the fields of another one, without validating them again."""
    made = object.__new__(kind)
    object.__setattr__(made, "__dict__", held)
    object.__setattr__(made, "__pydantic_fields_set__", set(held))
    object.__setattr__(made, "__pydantic_extra__", None)
    object.__setattr__(made, "__pydantic_private__", None)
    return made


def _message(copier: Copier, message: Any, _: int) -> Any:
    copier.of(message.content, 3)
    return message


def _itself(_: Copier, value: Any, __: int) -> Any:
    return value


def _command(copier: Copier, command: Any, depth: int) -> Any:
    return Command(copier.of(command.update, depth - 1), command)


def _stored(copier: Copier, item: Any, depth: int) -> Any:
    if not isinstance(value := getattr(item, "value", None), dict):
        return copier.of(object(), depth)
    held = {"score": getattr(item, "score", None), **value, "id": item.key}
    return copier.mapping(item, held.items(), len(held), depth)


_FORMS: tuple[tuple[type, Form], ...] = (
    (Document, _document),
    (ToolMessage, _tool_message),
    (BaseMessage, _message),
    (PromptValue, _itself),
)
