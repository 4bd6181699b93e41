"""Reading of the groups of a reply, item by item: what fits is taken, nothing is guessed."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass, field
from functools import lru_cache
from typing import Any, TypeAlias

from pydantic import TypeAdapter, ValidationError

from rag_eval_hooks.findings import Finding
from rag_eval_hooks.prompts.elements import Flawed, SpoiledGroupError, number_of
from rag_eval_hooks.prompts.prompt import Items, ReplyError, Values
from rag_eval_hooks.prompts.reply_json import reply_json

__all__ = ["Group", "Reading", "parse", "read_group", "read_reply"]


@dataclass(frozen=True, slots=True)
class Reading:
    """Contents of one reply.

    Attributes:
        values: Valid contents by item.
        problems: Problems of the others, for the judge; without content of the sample.
        flawed: Contents that are worth asking for once more, and are taken if that does not help.
        cut: True if the reply is cut off: less should be asked for at a time.
    """

    values: Values
    problems: tuple[str, ...] = ()
    flawed: Values = field(default_factory=dict)
    cut: bool = False


@lru_cache(maxsize=64)
def _adapter(model: Any) -> TypeAdapter[Any]:
    return TypeAdapter(model)


def parse(model: Any, value: Any) -> Any:
    """Validate a value by a model or an annotated type.

    Raises:
        ReplyError: It does not fit; says which fields, without their contents.
    """
    try:
        return _adapter(model).validate_python(value, strict=True)
    except ValidationError as error:
        raise ReplyError(_misfits(model, error)) from None


@dataclass(slots=True)
class Group:
    """Contents of one finding.

    Attributes:
        values: Valid contents by item.
        problems: Problems of the others.
        flawed: Contents that are worth asking for once more, by item.
    """

    values: dict[str, Any] = field(default_factory=dict)
    problems: list[str] = field(default_factory=list)
    flawed: dict[str, Any] = field(default_factory=dict)

    def keep_unless_differing(self, other: Group) -> None:
        """Leave the items open for which another object of the reply says something else."""
        for key in [*self.values, *self.flawed]:
            mine = {**self.values, **self.flawed}[key]
            if {**other.values, **other.flawed}.get(key, mine) != mine:
                self.values.pop(key, None)
                self.flawed.pop(key, None)
                self.problems.append(f"{key} is judged twice, differently")


Read: TypeAlias = Callable[[Finding, Any, tuple[str, ...]], Group]


def read_reply(items: Items, reply: str, read: Read, inner: Collection[str] = ()) -> Reading:
    """Read the contents of each finding from its group in a reply.

    The last object counts. Where an earlier one, such as a draft or a quoted text, says something
    else about an item, the item stays open.

    Args:
        items: The items that were asked for.
        reply: Text of the reply.
        read: Reads the items of one finding from its group, None for a missing one; raises
            `ReplyError` if none of them can be used.
        inner: Names of findings that are also keys within a group.

    Raises:
        ReplyError: The reply holds no JSON object.
    """
    asked = {kind.value for kind in items}
    found = reply_json(reply, asked - set(inner))
    objects = [one for one in found.objects if asked & one.keys()] or found.objects[-1:]
    *earlier, groups = [_groups(items, one, read) for one in objects]
    for kind, group in groups.items():
        for other in earlier:
            group.keep_unless_differing(other[kind])
    problems = [f"{kind.value}: {text}" for kind, one in groups.items() for text in one.problems]
    return Reading(
        {kind: group.values for kind, group in groups.items() if group.values},
        ("it was cut off",) if found.cut else tuple(problems),
        {kind: group.flawed for kind, group in groups.items() if group.flawed},
        found.cut,
    )


def _groups(items: Items, reply: Mapping[str, Any], read: Read) -> dict[Finding, Group]:
    groups: dict[Finding, Group] = {}
    for kind, asked in items.items():
        try:
            groups[kind] = read(kind, reply.get(kind.value), asked)
        except ReplyError as error:
            groups[kind] = Group(problems=[str(error)])
    return groups


def read_group(group: Any, key: str, asked: Collection[str], read: Callable[[Any], Any]) -> Group:
    """Read the elements of one group by id, and the problems of the others.

    An element that does not fit, is missing or stands twice leaves only its own item open. An
    id that was not asked for spoils the whole group: the others may have been renumbered too.

    Args:
        group: The group as it stands in the reply, or `None`.
        key: Name of the field that holds an element's id.
        asked: The ids asked for.
        read: Reads one element; may return `Flawed`.

    Raises:
        ReplyError: Nothing in the group can be used. `read` may raise it too, for its
            element: as itself to leave that one open, as `SpoiledGroupError` to spoil the group.
    """
    if not isinstance(group, list):
        raise ReplyError("it is missing or no list")
    elements = [element for element in group if isinstance(element, Mapping) and key in element]
    names = [number_of(element[key]) for element in elements]
    _refuse_unknown(names, asked)
    times = Counter(map(str, names))
    found = Group(problems=[f"{name} {_fault(times[name])}" for name in asked if times[name] != 1])
    for name, element in zip(map(str, names), elements, strict=True):
        if times[name] == 1:
            _read_one(name, element, read, found)
    return found


def _read_one(name: str, element: Any, read: Callable[[Any], Any], found: Group) -> None:
    try:
        content = read(element)
    except SpoiledGroupError:
        raise
    except ReplyError as error:
        found.problems.append(f"{name}: {error}")
        return
    if isinstance(content, Flawed):
        found.flawed[name] = content.content
        found.problems.append(f"{name}: {content.problem}")
    else:
        found.values[name] = content


def _refuse_unknown(names: Sequence[Any], asked: Collection[str]) -> None:
    for name in names:
        if isinstance(name, bool) or not isinstance(name, str | int) or str(name) not in asked:
            raise SpoiledGroupError("it has an id or number that was not asked for")


def _fault(times: int) -> str:
    return "is missing" if times == 0 else "stands twice"


def _misfits(model: Any, error: ValidationError) -> str:
    found = error.errors(include_url=False, include_context=False, include_input=False)
    if not isinstance(model, type):
        return f"{found[0]['msg'].lower()}, as a number"
    names = {str((*misfit["loc"], "it")[0]) for misfit in found}
    return ", ".join(sorted(names)) + " missing, of the wrong type or out of range"
