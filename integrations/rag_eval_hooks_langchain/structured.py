"""Structured values: what has fields, and answers that are no text, as JSON."""

from __future__ import annotations

import functools
import json
import math
from collections.abc import Mapping
from collections.abc import Set as AbstractSet
from dataclasses import fields, is_dataclass
from datetime import date, time
from enum import Enum
from itertools import islice
from numbers import Number
from typing import Any, cast

from langchain_core.documents import Document
from langchain_core.messages import BaseMessage
from langchain_core.prompt_values import PromptValue
from pydantic import BaseModel

from rag_eval_hooks.capture.snapshots import Record
from rag_eval_hooks.context import READABLE_MAPPING

__all__ = ["as_json", "class_of", "entries", "fresh", "is_stored", "structured", "update_of"]

_PAIR = 2
_DEEP = 12
_MANY = 10_000
"""Levels of a structured answer that are written, and values in all."""


def structured(outputs: Any, given: Any = None, *, state: bool = False) -> str | None:
    """Return a structured answer as JSON, or None if there is none.

    Args:
        outputs: What the root gave out.
        given: What it was given.
        state: Whether the output is the state of a graph, of which one new value may be the
            answer. So it is where documents or messages stand beside it.
    """
    values = entries(outputs)
    if values is None or not (state or any(map(_is_of_framework, values.values()))):
        return as_json(outputs)
    found = [value for value in fresh(values, given).values() if entries(value)]
    found = [value for value in found if not _is_of_framework(value)]
    return as_json(found[0]) if len(found) == 1 else None


def entries(value: Any) -> Mapping[str, Any] | None:
    """Return the entries of a mapping or of an object with fields; None for other values."""
    kind = class_of(value)
    if kind is Record:
        return cast("Record", value).held
    if _is_mapping(kind):
        return cast("Mapping[str, Any]", value)
    if _has_fields(kind):
        found = getattr(value, "__dict__", None)
        return _slots(value) if found is None else found
    if is_stored(kind) and isinstance(getattr(value, "value", None), Mapping):
        return {"score": getattr(value, "score", None), **value.value, "id": value.key}
    return None


def class_of(value: object) -> type:
    """Return the class of a value, or of what a proxy stands for."""
    return value.__class__


@functools.lru_cache(maxsize=256)
def _is_mapping(kind: type) -> bool:
    # Reading another kind of mapping may run the application's code, or load what it stands for.
    return issubclass(kind, READABLE_MAPPING)


@functools.lru_cache(maxsize=256)
def is_stored(kind: type) -> bool:
    """Return whether a class is that of the items of LangGraph's store."""
    return any(base.__module__ == "langgraph.store.base" for base in kind.__mro__)


@functools.lru_cache(maxsize=256)
def _has_fields(kind: type) -> bool:
    return issubclass(kind, BaseModel) or is_dataclass(kind)


def _slots(value: Any) -> dict[str, Any]:
    return {f.name: getattr(value, f.name) for f in fields(value) if hasattr(value, f.name)}


def update_of(value: Any) -> Any:
    """Return what a command of a graph puts into the state; any other value as it is."""
    if type(value).__name__ == "Command" and isinstance(value.update, Mapping | list | tuple):
        return value.update if isinstance(value.update, Mapping) else {"messages": value.update}
    return value


def fresh(values: Mapping[str, Any], given: Any) -> Mapping[str, Any]:
    """Return the entries that differ from those that were given."""
    before = entries(given)
    if not before:
        return values
    return {k: v for k, v in values.items() if not (k in before and _is_same(v, before[k]))}


def _is_same(value: Any, before: Any) -> bool:
    return value is before or (
        isinstance(value, str) and isinstance(before, str) and value == before
    )


def as_json(value: Any) -> str | None:
    """Return a value that is no text as JSON; None for nothing, documents and messages."""
    if isinstance(value, str | bytes) or _is_of_framework(value):
        return None
    kinds = (Number, date, time, Enum, list, tuple, AbstractSet)
    if not isinstance(value, kinds) and not entries(value):
        return None
    if isinstance(value, list | tuple | AbstractSet) and not value:
        return None
    try:
        return json.dumps(_Plain().of(value, _DEEP), ensure_ascii=False)
    except Exception:  # noqa: BLE001 - the host's edge: an object of its own, which is no answer
        return None


def _is_of_framework(value: Any) -> bool:
    """Return whether a value is a document, message or prompt, or directly holds one."""
    if isinstance(value, READABLE_MAPPING):
        value = list(islice(value.values(), _MANY))
    items = value if isinstance(value, list | tuple) else (value,)
    return any(_is_part(item) for item in items[:_MANY])


def _is_part(item: Any) -> bool:
    if isinstance(item, tuple) and len(item) == _PAIR:
        item = item[0]
    return isinstance(item, Document | BaseMessage | PromptValue)


class _Plain:
    """Writes values as what JSON has, so many levels deep and so many in all."""

    def __init__(self) -> None:
        self._left = _MANY

    def of(self, value: Any, depth: int) -> Any:
        self._left -= 1
        if isinstance(value, Enum):
            value = value.value
        if value is None or isinstance(value, str | bool | int):
            return value
        if isinstance(value, float):
            return value if math.isfinite(value) else str(value)
        if depth == 0 or self._left < 0:
            return None
        return self._container(value, depth - 1)

    def _container(self, value: Any, depth: int) -> Any:
        if isinstance(value, BaseModel):
            value = _dumped(value)
        if (values := entries(value)) is not None:
            most = max(0, self._left)
            return {str(k): self.of(v, depth) for k, v in islice(values.items(), most)}
        if isinstance(value, list | tuple | AbstractSet):
            return [self.of(item, depth) for item in islice(value, max(0, self._left))]
        return value.isoformat() if isinstance(value, date | time) else str(value)


def _dumped(model: BaseModel) -> Any:
    """Dump a model by its own rules; its bare fields if these fail, as in a cycle."""
    try:
        return model.model_dump(mode="json")
    except (TypeError, ValueError, RecursionError):
        return dict(model)
