"""Reading of the groups of a reply, item by item: a valid element is taken, nothing is guessed."""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Mapping
from dataclasses import dataclass, field
from functools import lru_cache
from typing import Any, NamedTuple, TypeAlias

from pydantic import TypeAdapter, ValidationError

from rag_eval_hooks.findings import Finding
from rag_eval_hooks.prompts.elements import Flawed, SpoiledGroupError, number_of
from rag_eval_hooks.prompts.prompt import Items, ReplyError, Values
from rag_eval_hooks.prompts.reply_json import reply_json


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


class _Item(NamedTuple):
    """Content of one item, or None, and its problem, or none."""

    content: Any = None
    problem: str = ""


Group: TypeAlias = dict[str, _Item]
"""The items of one finding that were asked for."""


def read_reply(
    items: Items,
    reply: str,
    read: Callable[[Finding, Any, tuple[str, ...]], Group],
    inner: Iterable[str] = (),
) -> Reading:
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
    groups: dict[Finding, Group] = {}
    for kind, keys in items.items():
        *earlier, group = [_group(one.get(kind.value), kind, keys, read) for one in objects]
        groups[kind] = {key: _unless_differing(key, group, earlier) for key in keys}
    problems = dict.fromkeys(
        f"{kind.value}: {item.problem}"
        for kind, group in groups.items()
        for item in group.values()
        if item.problem
    )
    return Reading(
        _contents(groups, flawed=False),
        ("it was cut off",) if found.cut else tuple(problems),
        _contents(groups, flawed=True),
        found.cut,
    )


def _group(
    group: Any,
    kind: Finding,
    keys: tuple[str, ...],
    read: Callable[[Finding, Any, tuple[str, ...]], Group],
) -> Group:
    try:
        return read(kind, group, keys)
    except ReplyError as error:
        return dict.fromkeys(keys, _Item(problem=str(error)))


def _unless_differing(key: str, group: Group, earlier: Iterable[Group]) -> _Item:
    item = group[key]
    said = [other[key].content for other in earlier]
    if item.content is None or all(one in (None, item.content) for one in said):
        return item
    return _Item(problem=f"{key} is judged twice, differently")


def _contents(groups: Mapping[Finding, Group], *, flawed: bool) -> Values:
    found = {
        kind: {
            key: item.content
            for key, item in group.items()
            if item.content is not None and bool(item.problem) is flawed
        }
        for kind, group in groups.items()
    }
    return {kind: contents for kind, contents in found.items() if contents}


def read_group(group: Any, key: str, asked: Collection[str], read: Callable[[Any], Any]) -> Group:
    """Read the elements of one group by id.

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
    named: dict[str, list[Any]] = {name: [] for name in asked}
    for element in group:
        if isinstance(element, Mapping) and key in element:
            name = number_of(element[key])
            is_name = isinstance(name, str | int) and not isinstance(name, bool)
            if not is_name or str(name) not in named:
                raise SpoiledGroupError("it has an id or number that was not asked for")
            named[str(name)].append(element)
    return {name: _read_one(name, elements, read) for name, elements in named.items()}


def _read_one(name: str, elements: list[Any], read: Callable[[Any], Any]) -> _Item:
    if len(elements) != 1:
        return _Item(problem=f"{name} {'stands twice' if elements else 'is missing'}")
    try:
        item = item_of(read(elements[0]))
    except SpoiledGroupError:
        raise
    except ReplyError as error:
        return _Item(problem=f"{name}: {error}")
    return item._replace(problem=f"{name}: {item.problem}") if item.problem else item


def item_of(content: Any) -> _Item:
    """Return the item with a content, which may be `Flawed`."""
    return _Item(*content) if isinstance(content, Flawed) else _Item(content)


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


def _misfits(model: Any, error: ValidationError) -> str:
    found = error.errors(include_url=False, include_context=False, include_input=False)
    if not isinstance(model, type):
        return f"{found[0]['msg'].lower()}, as a number"
    names = {str((*misfit["loc"], "it")[0]) for misfit in found}
    return ", ".join(sorted(names)) + " missing, of the wrong type or out of range"
