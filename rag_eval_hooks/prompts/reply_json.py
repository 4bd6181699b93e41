"""JSON objects in the text of a reply: after thoughts, in prose, in a fence, or cut off."""

from __future__ import annotations

import json
import re
from collections.abc import Collection
from dataclasses import dataclass
from typing import Any, Final, NoReturn

from rag_eval_hooks.prompts.prompt import ReplyError

__all__ = ["ReplyJson", "reply_json"]

_NEXT: Final = re.compile(r"<think(?:ing)?>|\{", re.IGNORECASE)
_BEGINNING: Final = re.compile(r"<think(?:ing)?>|\{\s*\"", re.IGNORECASE)
_THOUGHT: Final = re.compile(r"</think(?:ing)?>", re.IGNORECASE)
_MEMBER: Final = re.compile(r"\s*[\"}]")
_FIRST_KEY: Final = re.compile(r"\{\s*\"(\w+)\"\s*:")
_CUT_VALUE: Final = re.compile(r"[\w.+-]*\s*")
_ESCAPE: Final = 6  # characters of the longest escape
_DIGITS: Final = 300  # more than any float has; Python refuses to read a few thousand


@dataclass(frozen=True, slots=True)
class ReplyJson:
    """Objects of a reply.

    Attributes:
        objects: In the order of the text. Of one that is cut off, its groups as far as their
            elements are complete.
        cut: True if the last one is cut off.
    """

    objects: list[dict[str, Any]]
    cut: bool = False


def reply_json(text: str, names: Collection[str] = ()) -> ReplyJson:
    """Return the JSON objects in a text; thoughts, prose and fences around them are ignored.

    Args:
        text: Text of a reply.
        names: Keys with which a reply begins, and nothing within it.

    Raises:
        ReplyError: There is none, or one of them is malformed or has duplicate keys, NaN or
            infinities, a number of hundreds of digits, or another reply within it.
    """
    text = _without_thoughts(text)
    objects: list[dict[str, Any]] = []
    at = 0
    while (match := _NEXT.search(text, at)) is not None:
        start = match.start()
        if match[0] != "{":
            thought = _THOUGHT.search(text, match.end())
            at = len(text) if thought is None else thought.end()
        elif not _MEMBER.match(text, match.end()):
            # A brace of prose.
            at = match.end()
        else:
            value, at = _decoded(text, start)
            if value is None or set(names) & value.keys():
                _refuse_second(text[start + 1 : at], names)
            if value is None:
                return ReplyJson([*objects, _complete_groups(text, start)], cut=True)
            objects.append(value)
    if not objects:
        raise ReplyError("it holds no JSON object")
    return ReplyJson(objects)


def _without_thoughts(text: str) -> str:
    """Drop thoughts whose opening mark was part of the prompt."""
    end = _THOUGHT.search(text)
    if end is None or _BEGINNING.search(text, 0, end.start()):
        return text
    return text[end.end() :]


def _refuse_second(text: str, names: Collection[str]) -> None:
    """Refuse an object that holds the beginning of another: what precedes it was taken back."""
    if any(name in names for name in _FIRST_KEY.findall(text)):
        raise ReplyError("it was broken off and begun again")


def _decoded(text: str, start: int) -> tuple[dict[str, Any] | None, int]:
    """Return an object and its end, or None for one that is cut off."""
    try:
        value, end = _DECODER.raw_decode(text, start)
    except json.JSONDecodeError as error:
        if _is_cut(text, error):
            return None, len(text)
        raise ReplyError("its JSON is malformed") from None
    except RecursionError:
        raise ReplyError("its JSON is malformed") from None
    return dict(value), end


def _is_cut(text: str, error: json.JSONDecodeError) -> bool:
    rest = text[error.pos :]
    if error.msg.startswith("Unterminated"):
        return True
    return _CUT_VALUE.fullmatch(rest) is not None or (
        "escape" in error.msg and len(rest) <= _ESCAPE
    )


def _complete_groups(text: str, start: int) -> dict[str, Any]:
    """Return the members of an object that is cut off: the whole ones, and lists up to the cut."""
    groups: dict[str, Any] = {}
    at = start + 1
    try:
        while True:
            key, at = _DECODER.raw_decode(text, _after(text, at, ", \t\r\n"))
            at = _after(text, at, ": \t\r\n")
            if text[at] == "[":
                groups[key] = []
                at = _elements(text, at + 1, groups[key])
            else:
                value, at = _DECODER.raw_decode(text, at)
                # A number at the end of the text may lack its last digits.
                groups |= {key: value} if at < len(text) else {}
    except (json.JSONDecodeError, IndexError, RecursionError):
        return groups


def _elements(text: str, at: int, elements: list[Any]) -> int:
    """Add the complete objects of a list, and return its end."""
    while text[at := _after(text, at, ", \t\r\n")] != "]":
        element, at = _DECODER.raw_decode(text, at)
        elements += [element] if isinstance(element, dict) else []
    return at + 1


def _after(text: str, at: int, skipped: str) -> int:
    while text[at] in skipped:
        at += 1
    return at


def _unique(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    unique = dict(pairs)
    if len(unique) != len(pairs):
        raise ReplyError("its JSON has a key twice")
    return unique


def _no_constant(_name: str) -> NoReturn:
    raise ReplyError("its JSON has NaN or Infinity, which are no JSON")


def _whole_number(digits: str) -> int:
    if len(digits) > _DIGITS:
        raise ReplyError("its JSON has a number that is too long")
    return int(digits)


# Not strict: a line break within a text means itself.
_DECODER = json.JSONDecoder(
    object_pairs_hook=_unique,
    parse_constant=_no_constant,
    parse_int=_whole_number,
    strict=False,
)
