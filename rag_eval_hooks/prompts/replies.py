"""Strictly typed elements of replies, and the reading of groups of them."""

from __future__ import annotations

import json
import re
from collections import Counter
from collections.abc import Callable, Collection, Mapping, Sequence
from typing import Annotated, Any, NoReturn, TypeAlias, TypeVar

from pydantic import BaseModel, ConfigDict, Field, ValidationError

from rag_eval_hooks.findings import Finding
from rag_eval_hooks.prompts.prompt import Items, Reading, ReplyError

__all__ = [
    "AgreementVerdict",
    "Contents",
    "EntityVerdict",
    "NumberedList",
    "PartialSupportVerdict",
    "QuestionList",
    "RelevanceVerdict",
    "ReplyElement",
    "StanceVerdict",
    "SupportVerdict",
    "UnknownIdError",
    "one_object",
    "parse",
    "read_group",
    "read_reply",
]

ModelT = TypeVar("ModelT", bound=BaseModel)
T = TypeVar("T")
Contents: TypeAlias = tuple[Mapping[str, Any], Sequence[str]]
"""Valid contents of a finding by item, and the problems of the others."""

_MOST_ITEMS = 500
"""No sample within the content limits has more; a longer list is a runaway reply."""


class ReplyElement(BaseModel):
    """Base of the strictly typed elements of a reply."""

    model_config = ConfigDict(strict=True, extra="forbid", frozen=True)


class _Numbered(ReplyElement):
    n: int
    text: Annotated[str, Field(pattern=r"\S")]


class NumberedList(ReplyElement):
    """List whose numbers and count prove that nothing is missing."""

    items: Annotated[list[_Numbered], Field(max_length=_MOST_ITEMS)]
    count: Annotated[int, Field(ge=0)]

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

    noncommittal: bool


class SupportVerdict(ReplyElement):
    """Verdict on one claim by all chunks."""

    id: str
    supporting: list[int]
    not_supporting: list[int]
    together: bool
    reason: str = ""


class PartialSupportVerdict(SupportVerdict):
    """Verdict on one claim by some of all chunks."""

    partly: list[int]


class StanceVerdict(ReplyElement):
    """Stance of one text."""

    id: str
    indistinct: bool


class AgreementVerdict(ReplyElement):
    """Verdict on one claim by the other text."""

    id: str
    holds: bool
    reason: str = ""


class EntityVerdict(ReplyElement):
    """Verdict on one entity by all chunks."""

    id: str
    found: bool
    reason: str = ""


class RelevanceVerdict(ReplyElement):
    """Verdict on one chunk for the question."""

    chunk: int
    useful: bool
    rating: Annotated[float, Field(ge=0, le=100, allow_inf_nan=False)]
    reason: str = ""


def parse(model: type[ModelT], value: Any) -> ModelT:
    """Validate a value by a model.

    Raises:
        ReplyError: It does not fit; says which fields, without their contents.
    """
    try:
        return model.model_validate(value)
    except ValidationError as error:
        raise ReplyError(_misfits(error)) from None


def read_reply(
    items: Items, reply: str, read: Callable[[Finding, Any, tuple[str, ...]], Contents]
) -> Reading:
    """Read the contents of each finding from its group in a reply.

    Args:
        items: The items that were asked for.
        reply: Text of the reply.
        read: Reads the items of one finding from its group, None for a missing one; raises
            `ReplyError` if none of them can be used.

    Raises:
        ReplyError: The reply is not one JSON object.
    """
    groups = one_object(reply)
    values: dict[Finding, Mapping[str, Any]] = {}
    problems: list[str] = []
    for kind, asked in items.items():
        wrong: Sequence[str]
        try:
            values[kind], wrong = read(kind, groups.get(kind.value), asked)
        except ReplyError as error:
            wrong = [str(error)]
        problems += [f"{kind.value}: {text}" for text in wrong]
    return Reading(values, tuple(problems))


def read_group(
    group: Any, key: str, asked: Collection[str], read: Callable[[Any], T]
) -> tuple[dict[str, T], list[str]]:
    """Read the elements of one group by id, and the problems of the others.

    An element that does not fit, is missing or stands twice leaves only its own item open. An
    id that was not asked for spoils the whole group: the others may have been renumbered too.

    Args:
        group: The group as it stands in the reply, or `None`.
        key: Name of the field that holds an element's id.
        asked: The ids asked for.
        read: Reads one element.

    Raises:
        ReplyError: Nothing in the group can be used. `read` may raise it too, for its
            element: as itself to leave that one open, as `UnknownIdError` to spoil the group.
    """
    if not isinstance(group, list):
        raise ReplyError("it is missing or no list")
    elements = [element for element in group if isinstance(element, Mapping) and key in element]
    _refuse_unknown([element[key] for element in elements], asked)
    times = Counter(str(element[key]) for element in elements)
    values: dict[str, T] = {}
    problems = [f"{name} {_fault(times[name])}" for name in asked if times[name] != 1]
    for element in elements:
        name = str(element[key])
        if times[name] == 1:
            _read_one(name, element, read, values, problems)
    return values, problems


class UnknownIdError(ReplyError):
    """Element about something that was not asked about."""


def _read_one(
    name: str,
    element: Any,
    read: Callable[[Any], T],
    values: dict[str, T],
    problems: list[str],
) -> None:
    try:
        values[name] = read(element)
    except UnknownIdError:
        raise
    except ReplyError as error:
        problems.append(f"{name}: {error}")


def _refuse_unknown(names: Sequence[Any], asked: Collection[str]) -> None:
    for name in names:
        if isinstance(name, bool) or not isinstance(name, str | int) or str(name) not in asked:
            raise UnknownIdError("it has an id or number that was not asked for")


def _fault(times: int) -> str:
    return "is missing" if times == 0 else "stands twice"


def _misfits(error: ValidationError) -> str:
    # An extra key is text of the reply; its name is not repeated.
    fields = {
        "an extra key" if misfit["type"] == "extra_forbidden" else str((*misfit["loc"], "it")[0])
        for misfit in error.errors(include_url=False, include_context=False, include_input=False)
    }
    return ", ".join(sorted(fields)) + " missing, of the wrong type or out of range"


_BRACKETS = re.compile(r"[{}\[\]]")


def one_object(text: str) -> dict[str, Any]:
    """Return the only JSON object in a text; prose or a code fence around it is ignored.

    A text with a second object, or with any bracket outside the first, is refused: it is cut
    off, or nobody can say which part of it is the reply.

    Raises:
        ReplyError: There is no such object, or it has duplicate keys, NaN or infinities.
    """
    start = text.find("{")
    if start < 0:
        raise ReplyError("it holds no JSON object")
    try:
        value, end = _DECODER.raw_decode(text, start)
    except ReplyError:
        raise
    except (ValueError, RecursionError):
        raise ReplyError("its JSON is cut off or malformed") from None
    if _BRACKETS.search(text[:start] + text[end:]):
        raise ReplyError("it holds more than one JSON object")
    return dict(value)


def _unique(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    unique = dict(pairs)
    if len(unique) != len(pairs):
        raise ReplyError("its JSON has a key twice")
    return unique


def _no_constant(_name: str) -> NoReturn:
    raise ReplyError("its JSON has NaN or Infinity, which are no JSON")


_DECODER = json.JSONDecoder(object_pairs_hook=_unique, parse_constant=_no_constant)
