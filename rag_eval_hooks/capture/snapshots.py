"""Copies a framework's values, within limits. Another thread can read the copies later.

Copying runs no code of the application except `as_context`. Two copies of an unchanged value are
the same object, so readers can compare copies by identity.
"""

from __future__ import annotations

import sqlite3
from collections.abc import Callable, Iterable, Mapping
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

_NODES = 70
"""Maximum number of containers per copy in the application's thread."""
LATE_NODES = 20_000
"""Maximum number of containers per copy in the background."""
_ENTRIES = 30
"""Number of entries that count as one container."""
_DEEP = 12
"""Maximum depth of a copy in the application's thread."""
LATE_LEVELS = 50
"""Maximum depth of a copy in the background."""
_LONG = 1_000
"""If several copies share a text of at least this many characters, the text counts once."""
_MOST_KINDS = 2_000
_IMMUTABLE: tuple[type, ...] = (
    *(int, float, complex, bytes, Decimal, Fraction, UUID, date, time, timedelta),
)
ATOMS = frozenset((str, bool, datetime, NoneType, *_IMMUTABLE))


class Opaque:
    """Takes the place of an object that capture did not read."""

    def __repr__(self) -> str:
        raise TypeError("Capture did not read this object, so the object has no text.")


_OPAQUE = Opaque()


@dataclass(slots=True, eq=False)
class Record:
    kind: type
    held: dict[str, Any]
    # names of the fields that the class's `repr` shows
    shown: frozenset[str]

    def __repr__(self) -> str:
        values = (f"{name}={self.held[name]!r}" for name in self.held if name in self.shown)
        return f"{self.kind.__qualname__.rpartition('.')[2]}({', '.join(values)})"


Form: TypeAlias = Callable[["Copier", Any, int], Any]


@dataclass(slots=True)
class Snapshots:
    made: dict[int, tuple[Any, Any]] = field(default_factory=dict)
    chars: int = 0
    # ids of the long texts that already count
    long: set[int] = field(default_factory=set)

    def count(self, text: str) -> None:
        if (size := len(text)) >= _LONG:
            if id(text) in self.long:
                return
            self.long.add(id(text))
        self.chars += size

    def count_all(self, parts: Iterable[Any]) -> None:
        texts = [part for part in parts if type(part) is str]
        sizes = list(map(len, texts))
        if max(sizes, default=0) < _LONG:
            self.chars += sum(sizes)
        else:
            any(map(self.count, texts))


@dataclass(slots=True)
class Copier:
    snapshots: Snapshots
    # returns the function that copies a framework's class, or None for other classes
    form_of: Callable[[type], Form | None]
    # cached results of `form_of`
    forms: dict[type, Form]
    # the option `as_context`
    as_context: Callable[[Any], Context | None] | None
    # maximum number of characters in the copies of one request
    most_chars: int
    # number of further containers that this copier may copy
    nodes: float = _NODES
    # by id of a container, its entries when the application's thread copied it
    taken: dict[int, Any] = field(default_factory=dict, init=False)
    # whether the last copy omits something because of size or depth
    is_cut: bool = field(default=False, init=False)
    _around: set[int] = field(default_factory=set, init=False)

    def own(self, value: Any) -> Context | None:
        return None if self.as_context is None else self.as_context(value)

    def of(self, value: Any, depth: int = _DEEP) -> Any:
        kind = type(value)
        if kind is str:
            self.snapshots.count(value)
        if kind in ATOMS:
            return value
        form = self.forms.get(kind)
        if form is None:
            form = self.form_of(kind) or _form_of(kind)
            if len(self.forms) < _MOST_KINDS:
                self.forms[kind] = form
        return form(self, value, depth)

    def remember(self, value: Any, copy: Any) -> Any:
        self.snapshots.made[id(value)] = value, copy
        return copy

    def known(self, value: Any) -> Any:
        made = self.snapshots.made.get(id(value))
        return None if made is None else made[1]

    def room(self, size: int, depth: int, value: Any = None) -> int:
        """Reserve room for a container's copy. Return how many entries to copy."""
        left = self.nodes - 1
        if self._around and id(value) in self._around:
            return 0
        is_full = left < 0 or depth <= 0 or self.snapshots.chars >= self.most_chars
        most = size
        if is_full or left * _ENTRIES < size:
            most = 0 if is_full else int(left * _ENTRIES) + 1
            self.is_cut |= most < size or left < 0
        self.nodes = left - most / _ENTRIES
        return most

    def items(self, value: Any, depth: int) -> Any:
        parts = list.__iter__(value) if isinstance(value, list) else tuple.__iter__(value)
        return self.container(value, parts, len(value), depth, list)

    def container(
        self, value: Any, parts: Iterable[Any], size: int, depth: int, kind: type[Any] = dict
    ) -> Any:
        most = self.room(size, depth, value)
        if size and not most:
            return _OPAQUE
        key, last = id(value), self.known(value)
        taken = self.taken.get(key)
        is_known = last is not None and taken is None and most == size
        if is_known and type(value) is kind and _are_same(last, value):
            # Only atoms are their own copies. All entries are atoms, so the old copy is complete.
            self.taken[key] = last
            return last
        copy = kind(islice(parts, most)) if taken is None else taken.copy()
        values = copy.values() if kind is dict else copy
        kinds = set(map(type, values))
        if str in kinds:
            self.snapshots.count_all(values)
        is_flat = kinds <= ATOMS
        if most == size:
            self.taken[key] = copy if is_flat else copy.copy()
        if not is_flat:
            if len(copy) > self.nodes + 1:
                # Each of these entries may be a container.
                self.is_cut, copy = True, kind(islice(_items(copy), int(self.nodes) + 1))
            self._copy_parts(value, copy, depth)
        if last is not None and _are_same(last, copy):
            return last
        return self.remember(value, tuple(copy) if isinstance(value, tuple) else copy)

    def _copy_parts(self, value: Any, copy: Any, depth: int) -> None:
        self._around.add(id(value))
        for place, part in copy.items() if type(copy) is dict else enumerate(copy):
            if type(part) in ATOMS:
                continue
            if self.nodes >= 0:
                copy[place] = self.of(part, depth - 1)
                continue
            self.is_cut = True
            copy[place] = _OPAQUE
        self._around.discard(id(value))


def _items(copy: Any) -> Iterable[Any]:
    return copy.items() if type(copy) is dict else copy


def _are_same(last: Any, copy: Any) -> bool:
    if type(last) not in ((dict,) if type(copy) is dict else (list, tuple)):
        return False
    is_whole = len(last) == len(copy) and all(map(is_, last, copy))
    return is_whole and (type(copy) is list or all(map(is_, last.values(), copy.values())))


def _form_of(kind: type) -> Form:
    for bases, form in _FORMS:
        if issubclass(kind, bases):
            return form
    if issubclass(kind, BaseModel) or hasattr(kind, "__dataclass_fields__"):
        return _record
    return _own_or_opaque


def _itself(_: Copier, value: Any, __: int) -> Any:
    return value


def _dict(copier: Copier, value: Any, depth: int) -> Any:
    # `as_context` receives no plain dicts, because frameworks pass plain dicts.
    if type(value) is not dict and (own := copier.own(value)) is not None:
        return own
    return copier.container(value, dict.items(value), dict.__len__(value), depth)


def _database_row(copier: Copier, value: Any, depth: int) -> Any:
    return copier.container(value, zip(value.keys(), value, strict=True), len(value), depth)


def _set(copier: Copier, value: Any, depth: int) -> Any:
    items = set.__iter__(value) if isinstance(value, set) else frozenset.__iter__(value)
    most = copier.room(len(value), depth)
    return frozenset(item for item in islice(items, most) if type(item) in ATOMS)


def _record(copier: Copier, value: Any, depth: int) -> Any:
    if (own := copier.own(value)) is not None:
        return own
    kind = type(value)
    held: Any = getattr(value, "__dict__", None)
    if type(held) is not dict:
        names = getattr(kind, "__dataclass_fields__", {})
        held = {name: getattr(value, name) for name in names if hasattr(value, name)}
    entries = copier.container(held, dict.items(held), len(held), depth)
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
    # Copy a subclass to a plain `str`, because the subclass may contain application code.
    (str, lambda _, value, __: str.__getitem__(value, slice(None))),
    (_IMMUTABLE, _itself),
    (dict, _dict),
    ((list, tuple), Copier.items),
    ((set, frozenset), _set),
    (
        MappingProxyType,
        lambda copier, one, depth: copier.container(one, one.items(), len(one), depth),
    ),
    (sqlite3.Row, _database_row),
)
