"""Finds JSON objects in a reply that may also have thoughts, prose, fences or a cut end."""

from __future__ import annotations

import json
import re
from typing import Any, Final, NoReturn

from rag_eval_hooks.prompts.prompt import ReplyError

_NEXT: Final = re.compile(r"<think(?:ing)?>|\{(?=\s*[\"}])", re.IGNORECASE)
_BEGINNING: Final = re.compile(r"<think(?:ing)?>|\{\s*\"", re.IGNORECASE)
_THOUGHT: Final = re.compile(r"</think(?:ing)?>", re.IGNORECASE)
_FIRST_KEY: Final = re.compile(r"\{\s*\"(\w+)\"\s*:")
_STRUCTURE: Final = re.compile(r'"(?:[^"\\]|\\.)*(?:"|\\?\Z)|[{}\[\]]', re.DOTALL)
_CLOSERS: Final = {"{": "}", "[": "]"}
_DEEPEST: Final = 50
_DIGITS: Final = 300  # more than any float has; Python cannot parse thousands of digits


def reply_json(text: str, name: str) -> tuple[list[dict[str, Any]], bool]:
    """Return the JSON objects in a reply, and whether the last object is cut off.

    Thoughts, prose and fences are ignored. A cut object keeps its complete elements. No nested
    object may start with the key `name`.

    Raises:
        ReplyError: The text has no object. Or an object is malformed, repeats a key, has NaN or
            infinity or a number of hundreds of digits, or contains another reply.
    """
    text = _without_thoughts(text)
    objects: list[dict[str, Any]] = []
    at: int | None = 0
    while at is not None and (match := _NEXT.search(text, at)) is not None:
        if match[0] != "{":
            thought = _THOUGHT.search(text, match.end())
            at = None if thought is None else thought.end()
            continue
        at, whole = _extent(text, match.start())
        value = _decoded(whole)
        if at is None or name in value:
            _refuse_second(text[match.start() + 1 : at], name)
        objects.append(value)
        if at is None:
            return objects, True
    if not objects:
        raise ReplyError("it holds no JSON object")
    return objects, False


def _without_thoughts(text: str) -> str:
    """Remove thoughts whose opening mark was in the prompt."""
    end = _THOUGHT.search(text)
    if end is None or _BEGINNING.search(text, 0, end.start()):
        return text
    return text[end.end() :]


def _extent(text: str, start: int) -> tuple[int | None, str]:
    """Return the end and the text of an object.

    A cut object has no end. Its text is closed after the last complete element.
    """
    open_marks: list[str] = []
    complete = "{}"
    for match in _STRUCTURE.finditer(text, start):
        if (mark := match[0]) in _CLOSERS:
            open_marks.append(mark)
        elif mark in ("}", "]"):
            open_marks.pop()
            if not open_marks:
                return match.end(), text[start : match.end()]
            if len(open_marks) <= 2:
                closers = "".join(_CLOSERS[one] for one in reversed(open_marks))
                complete = text[start : match.end()] + closers
        if len(open_marks) > _DEEPEST:
            raise ReplyError("its JSON is malformed")
    return None, complete


def _decoded(text: str) -> dict[str, Any]:
    try:
        value: dict[str, Any] = _DECODER.decode(text)
    except (json.JSONDecodeError, RecursionError):
        raise ReplyError("its JSON is malformed") from None
    return value


def _refuse_second(text: str, name: str) -> None:
    """Reject an object that contains the start of another, because the model started again."""
    if name in _FIRST_KEY.findall(text):
        raise ReplyError("it was broken off and started again")


def _unique(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    unique = dict(pairs)
    if len(unique) != len(pairs):
        raise ReplyError("its JSON has a key twice")
    return unique


def _no_constant(_name: str) -> NoReturn:
    raise ReplyError("its JSON has NaN or Infinity, which are not JSON")


def _whole_number(digits: str) -> int:
    if len(digits) > _DIGITS:
        raise ReplyError("its JSON has a number that is too long")
    return int(digits)


# Not strict, so that texts may contain line breaks.
_DECODER: Final = json.JSONDecoder(
    object_pairs_hook=_unique,
    parse_constant=_no_constant,
    parse_int=_whole_number,
    strict=False,
)
