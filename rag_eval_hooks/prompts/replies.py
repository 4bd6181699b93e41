"""Reading of the groups of a reply, item by item: what fits is taken, nothing is guessed."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Annotated, Any, TypeAlias, TypeVar

from pydantic import AfterValidator, BaseModel, BeforeValidator, ConfigDict, Field, ValidationError

from rag_eval_hooks.findings import Finding
from rag_eval_hooks.prompts.prompt import Items, Reading, ReplyError
from rag_eval_hooks.prompts.reply_json import reply_json
from rag_eval_hooks.prompts.shape import is_empty

__all__ = [
    "Flag",
    "Flawed",
    "Group",
    "Number",
    "NumberedList",
    "QuestionList",
    "ReplyElement",
    "Said",
    "SpoiledGroupError",
    "WholeNumber",
    "Words",
    "number_of",
    "parse",
    "read_group",
    "read_reply",
]

ModelT = TypeVar("ModelT", bound=BaseModel)
_MOST_ITEMS = 500
"""No sample within the content limits has more; a longer list is a runaway reply."""
_FLAGS = {"true": True, "false": False}
_NUMBER = re.compile(r"\s*[+-]?[0-9]+(?:\.[0-9]+)?\s*")


def number_of(value: Any) -> Any:
    """Return the number that a value is meant to be: of "4" and 4.0, 4; all else unchanged."""
    if isinstance(value, str) and _NUMBER.fullmatch(value):
        value = float(value)
    if isinstance(value, float) and value.is_integer():
        return int(value)
    return value


def _flag_of(value: Any) -> Any:
    return _FLAGS.get(value.strip().lower(), value) if isinstance(value, str) else value


def _said(text: str) -> str:
    if is_empty(text) or "\n" in text.strip():
        raise ValueError("it says nothing, or holds what came between two parts of a reply")
    return text


WholeNumber: TypeAlias = Annotated[int, BeforeValidator(number_of)]
Number: TypeAlias = Annotated[float, BeforeValidator(number_of), Field(allow_inf_nan=False)]
Flag: TypeAlias = Annotated[bool, BeforeValidator(_flag_of)]
Words: TypeAlias = Annotated[str, BeforeValidator(lambda v: "" if v is None else v)]
"""A text that may be missing."""
Said: TypeAlias = Annotated[str, AfterValidator(_said)]
"""One line that says something: neither blank nor dots nor the shape's placeholder."""


class ReplyElement(BaseModel):
    """Base of the elements of a reply. Keys that nobody asked for mean nothing."""

    model_config = ConfigDict(strict=True, extra="ignore", frozen=True)


class _Numbered(ReplyElement):
    n: WholeNumber
    text: Said


class NumberedList(ReplyElement):
    """List whose numbers and count prove that nothing is missing."""

    items: Annotated[list[_Numbered], Field(max_length=_MOST_ITEMS)]
    count: Annotated[WholeNumber, Field(ge=0, le=_MOST_ITEMS)]

    def texts(self) -> tuple[str, ...]:
        """Return the texts in the order of their numbers, each once.

        Raises:
            ReplyError: The numbers are not exactly 1 to `count`.
        """
        if sorted(item.n for item in self.items) != list(range(1, self.count + 1)):
            raise ReplyError("the numbers do not run from 1 to count")
        ordered = sorted(self.items, key=lambda item: item.n)
        return tuple(dict.fromkeys(item.text.strip() for item in ordered))


class QuestionList(NumberedList):
    """Generated questions, and a flag for an evasive answer."""

    noncommittal: Flag


def parse(model: type[ModelT], value: Any) -> ModelT:
    """Validate a value by a model.

    Raises:
        ReplyError: It does not fit; says which fields, without their contents.
    """
    try:
        return model.model_validate(value)
    except ValidationError as error:
        raise ReplyError(_misfits(error)) from None


@dataclass(frozen=True, slots=True)
class Flawed:
    """Content that is worth asking for once more.

    Attributes:
        content: To be taken if that does not help.
        problem: Its flaw, without content of the sample.
    """

    content: Any
    problem: str


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


class SpoiledGroupError(ReplyError):
    """Element by which all of its group is in doubt: of another scale, or not asked for."""


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


def _misfits(error: ValidationError) -> str:
    fields = {
        str((*misfit["loc"], "it")[0])
        for misfit in error.errors(include_url=False, include_context=False, include_input=False)
    }
    return ", ".join(sorted(fields)) + " missing, of the wrong type or out of range"
