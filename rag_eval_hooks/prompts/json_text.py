"""Strict reading of the one JSON object in a model's reply."""

from __future__ import annotations

import json
import re
from typing import Any, NoReturn

from rag_eval_hooks.prompts.ask import ReplyError

__all__ = ["one_object"]

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
    found = dict(pairs)
    if len(found) != len(pairs):
        raise ReplyError("its JSON has a key twice")
    return found


def _no_constant(_name: str) -> NoReturn:
    raise ReplyError("its JSON has NaN or Infinity, which are no JSON")


_DECODER = json.JSONDecoder(object_pairs_hook=_unique, parse_constant=_no_constant)
