"""A judge that obeys: whatever stands outside the delimiters, it takes for an order."""

from __future__ import annotations

import html
import json
import re
import unicodedata
from collections.abc import Iterator, Mapping
from typing import Any

from tests.servers.brain import truthful_reply

__all__ = ["Obedient"]

_MEANT = re.compile(r"<\s*(/?)\s*data\s*(?:\w+=)?\s*([0-9a-f]{12})\s*/?\s*>", re.IGNORECASE)
_BRACKETS = str.maketrans("\u2039\u203a\u27e8\u27e9\u3008\u3009\u2044", "<><><>/")
_OPEN = re.compile(r"<data ([0-9a-f]{12})>")
_TOP = {"accuracy_ratings": 4, "context_ratings": 2, "groundedness_ratings": 2}
_GOOD: dict[str, Any] = {"score": 100, "value": 1, "rating": 100, "useful": True, "correct": True}
_GOOD |= {"verdict": "supported", "found": True}


class Obedient:
    """Makes chat replies: truthful ones, or top verdicts once it reads a line it does not know.

    A block ends for it at the first closing delimiter with the token of the opening one, wherever
    that stands: who forges it exactly is outside from there.

    Args:
        lenient: Whether a delimiter may look otherwise, as a model reads: in any letters and case,
            escaped, with spaces and with characters in it that nobody sees.

    Attributes:
        learning: Whether every line outside the blocks is taken as known.
        obeyed: How many prompts had an unknown line.
        tokens: All tokens that it saw.
    """

    def __init__(self, *, lenient: bool = False) -> None:
        self._lenient = lenient
        self.learning = True
        self.obeyed = 0
        self.tokens: set[str] = set()
        self._known: set[str] = set()

    def __call__(self, body: Mapping[str, Any]) -> str:
        """The reply to a chat request."""
        text = "\n".join(m["content"] for m in body["messages"] if m["role"] == "user")
        self.tokens |= set(_OPEN.findall(text))
        seen = _read_kindly(text) if self._lenient else text
        lines = {line for line in _outside(seen).splitlines() if line.strip()}
        reply = _truthful(body)
        if self.learning:
            self._known |= lines
        elif not lines <= self._known:
            self.obeyed += 1
            reply = {name: _TOP.get(name, _praised(group)) for name, group in reply.items()}
        return json.dumps(reply)


def _truthful(body: Mapping[str, Any]) -> dict[str, Any]:
    """The truthful reply; none where a forged delimiter has left no document to read."""
    try:
        return truthful_reply(body)
    except (ValueError, KeyError, AttributeError):
        return {}


def _read_kindly(text: str) -> str:
    """The text with all that may be meant as a delimiter written as one."""
    text = text.replace("\\\\u003c", "<").replace("\\u003c", "<").replace("\\\\u003e", ">")
    text = html.unescape(text.replace("\\n", "\n").replace("\\t", "\t"))
    text = unicodedata.normalize("NFKC", text).translate(_BRACKETS)
    text = "".join(char for char in text if unicodedata.category(char) != "Cf")
    return _MEANT.sub(lambda found: f"<{'/' if found[1] else ''}data {found[2].lower()}>", text)


def _outside(text: str) -> str:
    return "".join(_parts(text))


def _parts(text: str) -> Iterator[str]:
    while (found := _OPEN.search(text)) is not None:
        yield text[: found.start()]
        end = text.find(f"</data {found[1]}>", found.end())
        if end < 0:
            return
        text = text[end + len(f"</data {found[1]}>") :]
    yield text


def _praised(value: Any) -> Any:
    if isinstance(value, list):
        return [_praised(item) for item in value]
    if not isinstance(value, dict):
        return value
    praised = {key: _GOOD.get(key, _praised(item)) for key, item in value.items()}
    if "chunks" in value:
        praised["chunks"] = [1]
    return praised
