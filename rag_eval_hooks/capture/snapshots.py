"""Copies values of a framework, within limits, so that another thread can read the copies later.

The application's thread makes the copies, without running application code. It copies dicts, lists,
models and dataclasses, keeps texts and numbers, and does not read other objects. An unchanged value
gives the same copy, so that readers recognize values that a step passes on.
"""

from __future__ import annotations

import sqlite3
from collections.abc import Callable, Collection, Iterable, Mapping
from dataclasses import dataclass, field
from datetime import date, datetime, time, timedelta
from decimal import Decimal
from enum import Enum
from fractions import Fraction
from itertools import islice
from operator import is_
from types import MappingProxyType, NoneType
from typing import Any, TypeAlias
from uuid import UUID

from pydantic import BaseModel

from rag_eval_hooks.sample import Context

__all__ = ["LATE_LEVELS", "LATE_NODES", "Copier", "Cut", "Form", "Opaque", "Record", "Snapshots"]

_NODES = 90
"""Maximum number of containers per copy in the application's thread."""
LATE_NODES = 20_000
"""Maximum number of containers per copy in the background."""
_ENTRIES = 15
"""A copy may have this many times as many entries as containers."""
_DEEP = 12
"""Maximum depth of a copy in the application's thread."""
LATE_LEVELS = 50
"""Maximum depth of a copy in the background. No reader goes deeper."""
_LONG = 1_000
"""Characters of a text with at least this length count once, however many copies share it."""
_MOST_KINDS = 2_000
"""Maximum number of classes whose form is remembered."""
_IMMUTABLE: tuple[type, ...] = (
    *(int, float, complex, bytes, Decimal, Fraction, UUID, date, time, timedelta),
)
_ATOMS = frozenset((str, bool, datetime, NoneType, *_IMMUTABLE))


class Opaque:
    """Placeholder for an unread object. Converting the placeholder to text raises."""

    def __repr__(self) -> str:
        raise TypeError("the object was not read")


_OPAQUE = Opaque()


@dataclass(slots=True, eq=False)
class Record:
    kind: type
    held: dict[str, Any]
    # Names of the fields that the class shows.
    shown: frozenset[str]

    def __repr__(self) -> str:
        values = (f"{name}={self.held[name]!r}" for name in self.held if name in self.shown)
        return f"{self.kind.__qualname__.rpartition('.')[2]}({', '.join(values)})"


@dataclass(frozen=True, slots=True, eq=False)
class Cut:
    value: Any


Form: TypeAlias = Callable[["Copier", Any, int], Any]
"""Copies a value of one class. Receives the copier, the value, and the remaining depth."""


@dataclass(slots=True)
class Snapshots:
    made: dict[int, tuple[Any, Any]] = field(default_factory=dict)
    chars: int = 0
    # Identities of counted long texts.
    long: set[int] = field(default_factory=set)


class Copier:
    """Copies the values that a framework passes around.

    Args:
        snapshots: The request's copies.
        form_of: Returns how to copy a framework's class, or None for other classes.
        forms: Forms of classes that were copied before.
        own: Reads an application's object through the option `as_context`.
        most_chars: Maximum number of characters in the copies of one request.
        nodes: Maximum number of containers in one copy.

    Attributes:
        is_cut: Whether the last copy omits something because of size.
        is_shallow: Whether the last copy omits something because of depth.
    """

    def __init__(
        self,
        snapshots: Snapshots,
        form_of: Callable[[type], Form | None],
        forms: dict[type, Form],
        own: Callable[[Any], Context | None] | None,
        most_chars: int,
        nodes: int = _NODES,
    ) -> None:
        self.snapshots = snapshots
        self._form_of = form_of
        self._forms = forms
        self.own = own or (lambda _: None)
        self._most_chars = most_chars
        self._nodes = nodes
        self._entries = nodes * _ENTRIES
        self._around: set[int] = set()
        self.is_cut = self.is_shallow = False

    def of(self, value: Any, depth: int = _DEEP) -> Any:
        kind = type(value)
        if kind in _ATOMS:
            if kind is str:
                self._count(value)
            return value
        form = self._forms.get(kind)
        if form is None:
            form = self._new_form(kind)
        return form(self, value, depth)

    def remember(self, value: Any, copy: Any) -> Any:
        self.snapshots.made[id(value)] = value, copy
        return copy

    def known(self, value: Any) -> Any:
        made = self.snapshots.made.get(id(value))
        return None if made is None else made[1]

    def _new_form(self, kind: type) -> Form:
        form = self._form_of(kind) or _form_of(kind)
        if len(self._forms) < _MOST_KINDS:
            self._forms[kind] = form
        return form

    def _count(self, text: str) -> None:
        size = len(text)
        snapshots = self.snapshots
        if size >= _LONG:
            if id(text) in snapshots.long:
                return
            snapshots.long.add(id(text))
        snapshots.chars += size

    def room(self, size: int, depth: int, value: Any = None) -> int:
        """Return how many entries of a container may be copied.

        Returns 0 for a container inside itself.
        """
        if id(value) in self._around:
            return 0
        if size and depth <= 0:
            self.is_shallow = True
            return 0
        self._nodes -= 1
        most = min(size, self._entries)
        if self._nodes < 0 or self.snapshots.chars >= self._most_chars:
            most = 0
        if most < size or self._nodes < 0:
            self.is_cut = True
        self._entries -= most
        return most

    def mapping(self, value: Any, items: Iterable[tuple[Any, Any]], size: int, depth: int) -> Any:
        most = self.room(size, depth, value)
        if size and not most:
            return _OPAQUE
        copy = dict(islice(items, most))
        if self._has_containers(copy.values()):
            self._around.add(id(value))
            for key, item in copy.items():
                if type(item) not in _ATOMS:
                    copy[key] = _OPAQUE if self._nodes < 0 else self.of(item, depth - 1)
            self._around.discard(id(value))
        last = self.known(value)
        if type(last) is dict and len(last) == len(copy) and _are_same(last, copy):
            return last
        return self.remember(value, copy)

    def items(self, value: Any, depth: int) -> Any:
        size = len(value)
        most = self.room(size, depth, value)
        if size and not most:
            return _OPAQUE
        copy: list[Any] = list(islice(iter_of(value), most))
        if self._has_containers(copy):
            self._around.add(id(value))
            for place, item in enumerate(copy):
                if self._nodes < 0:
                    del copy[place:]
                    break
                if type(item) not in _ATOMS:
                    copy[place] = self.of(item, depth - 1)
            self._around.discard(id(value))
        made = tuple(copy) if isinstance(value, tuple) else copy
        last = self.known(value)
        if type(last) is type(made) and len(last) == len(made) and all(map(is_, last, made)):
            return last
        return self.remember(value, made)

    def _has_containers(self, values: Collection[Any]) -> bool:
        """Count the texts among values. Return whether other values need a copy."""
        kinds = set(map(type, values))
        if str in kinds:
            for value in values:
                if type(value) is str:
                    self._count(value)
        return not kinds <= _ATOMS


def iter_of(value: Any) -> Iterable[Any]:
    """Return the items of a list or tuple without calling methods of its class."""
    return list.__iter__(value) if isinstance(value, list) else tuple.__iter__(value)


def _are_same(last: dict[Any, Any], copy: dict[Any, Any]) -> bool:
    return all(map(is_, last.values(), copy.values())) and all(map(is_, last, copy))


def _form_of(kind: type) -> Form:
    for bases, form in _FORMS:
        if issubclass(kind, bases):
            return form
    if issubclass(kind, BaseModel) or hasattr(kind, "__dataclass_fields__"):
        return _record
    return _own_or_opaque


def _text(_: Copier, value: Any, __: int) -> Any:
    return str.__str__(value)[:] if type(value) is str else str.__getitem__(value, slice(None))


def _itself(_: Copier, value: Any, __: int) -> Any:
    return value


def _dict(copier: Copier, value: Any, depth: int) -> Any:
    # Frameworks pass plain dicts.
    if type(value) is not dict and (own := copier.own(value)) is not None:
        return own
    return copier.mapping(value, dict.items(value), dict.__len__(value), depth)


def _proxy(copier: Copier, value: Any, depth: int) -> Any:
    return copier.mapping(value, value.items(), len(value), depth)


def _database_row(copier: Copier, value: Any, depth: int) -> Any:
    return copier.mapping(value, zip(value.keys(), value, strict=True), len(value), depth)


def _list(copier: Copier, value: Any, depth: int) -> Any:
    return copier.items(value, depth)


def _set(copier: Copier, value: Any, depth: int) -> Any:
    items = set.__iter__(value) if isinstance(value, set) else frozenset.__iter__(value)
    most = copier.room(len(value), depth)
    return frozenset(item for item in islice(items, most) if type(item) in _ATOMS)


def _record(copier: Copier, value: Any, depth: int) -> Any:
    if (own := copier.own(value)) is not None:
        return own
    kind = type(value)
    held: Any = getattr(value, "__dict__", None)
    if type(held) is not dict:
        names = getattr(kind, "__dataclass_fields__", {})
        held = {name: getattr(value, name) for name in names if hasattr(value, name)}
    entries = copier.mapping(held, dict.items(held), len(held), depth)
    if type(entries) is not dict:
        return entries
    last = copier.known(value)
    if type(last) is Record and last.held is entries:
        return last
    return copier.remember(value, Record(kind, entries, _shown_names(kind)))


def _shown_names(kind: type) -> frozenset[str]:
    name = "model_fields" if issubclass(kind, BaseModel) else "__dataclass_fields__"
    known: Mapping[str, Any] = getattr(kind, name, {})
    return frozenset(
        name for name, one in known.items() if one.repr and not getattr(one, "exclude", False)
    )


def _own_or_opaque(copier: Copier, value: Any, _: int) -> Any:
    own = copier.own(value)
    return _OPAQUE if own is None else own


_FORMS: tuple[tuple[type | tuple[type, ...], Form], ...] = (
    ((Enum, type, Context), _itself),
    (str, _text),
    (_IMMUTABLE, _itself),
    (dict, _dict),
    ((list, tuple), _list),
    ((set, frozenset), _set),
    (MappingProxyType, _proxy),
    (sqlite3.Row, _database_row),
)
