"""Builds prompts for language models, and extracts the JSON from their replies."""

from __future__ import annotations

import hashlib
import json
import re
from collections.abc import Mapping, Sequence
from copy import deepcopy
from dataclasses import dataclass, replace
from functools import lru_cache
from typing import Any, Final, NoReturn

from pydantic import BaseModel

from rag_eval_hooks.explanation import encodable

_DELIMITER: Final = re.compile(r"<(/?)data ([0-9a-f]{12})>")
# Text that resembles a delimiter, and invisible or order-changing characters. JSON escapes keep the
# meaning of these characters.
_FOREIGN: Final = re.compile(
    r"<(?=\s{0,8}/?\s{0,8}data)|[\x7f-\x9f\xad\u061c\u200b-\u200f\u2028-\u202e\u2060-\u2069\ufeff"
    r"\U000e0000-\U000e007f]",
    re.IGNORECASE,
)
_SAYS_NOTHING: Final = re.compile(r"[\s.\u2026_-]*")
_KEPT: Final = ("type", "enum", "required", "additionalProperties")  # accepted by all endpoints


class ReplyError(Exception):
    """A model's reply is invalid. The next prompt tells the model this error's message.

    The message quotes no text of the sample.
    """


@dataclass(frozen=True, slots=True)
class Prompt:
    system: str
    user: str
    name: str
    model: type[BaseModel]
    shape: type[BaseModel]  # of the requested finding alone
    version: str = ""

    @property
    def identity(self) -> tuple[Any, ...]:
        # A memo uses these values as the key of the reply, so they must not contain the secret.
        return (self.version, self.name, self.system, self.user)

    @property
    def schema(self) -> dict[str, Any]:
        return deepcopy(_schema(self.model))

    @property
    def user_with_shape(self) -> str:
        return f"{self.user}\n\nThe reply matches this JSON schema: {_dumped(_schema(self.shape))}"

    def sealed(self, secret: bytes) -> Prompt:
        return replace(self, user=sealed(self.user, secret))


def sealed(text: str, secret: bytes) -> str:
    """Return the prompt with unpredictable delimiters around its data.

    An untrusted text in the data cannot contain these delimiters, so it cannot end its own block.
    """
    return _DELIMITER.sub(lambda match: f"<{match[1]}data {_token(match[2], secret)}>", text)


def _token(text: str, key: bytes = b"") -> str:
    return hashlib.blake2b(text.encode(), key=key, digest_size=6).hexdigest()


def data_block(document: Mapping[str, Any]) -> str:
    text = _FOREIGN.sub(_escape, encodable(_dumped(document)))
    token = _token(text)  # no text contains its own hash
    return f"<data {token}>\n{text}\n</data {token}>"


def _escape(match: re.Match[str]) -> str:
    return "\\u003c" if match[0] == "<" else json.dumps(match[0])[1:-1]


def _dumped(value: Any) -> str:
    return json.dumps(value, ensure_ascii=False, separators=(",", ":"))


def numbered(prefix: str, texts: Sequence[str]) -> dict[str, str]:
    return {f"{prefix}{number}": text for number, text in enumerate(texts, start=1)}


def is_empty(text: str) -> bool:
    return _SAYS_NOTHING.fullmatch(text) is not None


@lru_cache(maxsize=256)
def _schema(model: type[BaseModel]) -> dict[str, Any]:
    schema = model.model_json_schema()
    definitions = schema.get("$defs", {})

    def inlined(node: Mapping[str, Any]) -> dict[str, Any]:
        if (ref := node.get("$ref")) is not None:
            return inlined(definitions[ref.rpartition("/")[2]])
        kept = {key: node[key] for key in _KEPT if key in node}
        if "anyOf" in node:
            kept["anyOf"] = [inlined(one) for one in node["anyOf"]]
        if "items" in node:
            kept["items"] = inlined(node["items"])
        if "properties" in node:
            kept["properties"] = {key: inlined(one) for key, one in node["properties"].items()}
        return kept

    return inlined(schema)


_NEXT: Final = re.compile(r"<think(?:ing)?>|\{(?=\s*[\"}])", re.IGNORECASE)
_BEGINNING: Final = re.compile(r"<think(?:ing)?>|\{\s*\"", re.IGNORECASE)
_THOUGHT: Final = re.compile(r"</think(?:ing)?>", re.IGNORECASE)
_FIRST_KEY: Final = re.compile(r"\{\s*\"(\w+)\"\s*:")
_STRUCTURE: Final = re.compile(r'"(?:[^"\\]|\\.)*(?:"|\\?\Z)|[{}\[\]]', re.DOTALL)
_CLOSERS: Final = {"{": "}", "[": "]"}
_DEEPEST: Final = 50


def reply_json(text: str, name: str) -> tuple[list[dict[str, Any]], bool]:
    """Return the JSON objects in a reply, and whether the reply breaks off inside the last object.

    `name` is the first key that a JSON object should have.
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
        try:
            value: dict[str, Any] = _DECODER.decode(whole)
        except ValueError:  # also a number of more than 4,300 digits
            raise ReplyError("the reply's JSON is malformed") from None
        inner = text[match.start() + 1 : at]
        if (at is None or name in value) and name in _FIRST_KEY.findall(inner):
            raise ReplyError("the reply started its JSON object twice")
        objects.append(value)
        if at is None:
            return objects, True
    if not objects:
        raise ReplyError("the reply has no JSON object")
    return objects, False


def _without_thoughts(text: str) -> str:
    # If the prompt has the opening tag of the thoughts, the reply has only the closing tag.
    end = _THOUGHT.search(text)
    if end is None or _BEGINNING.search(text, 0, end.start()):
        return text
    return text[end.end() :]


def _extent(text: str, start: int) -> tuple[int | None, str]:
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
            raise ReplyError("the reply's JSON is malformed")
    # The object is incomplete. Close it after its last complete element.
    return None, complete


def _unique(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    unique = dict(pairs)
    if len(unique) != len(pairs):
        raise ReplyError("the reply's JSON has a key twice")
    return unique


def _no_constant(_name: str) -> NoReturn:
    raise ReplyError("the reply has NaN or Infinity, which JSON does not allow")


# Not strict, so that texts may contain line breaks.
_DECODER: Final = json.JSONDecoder(
    object_pairs_hook=_unique, parse_constant=_no_constant, strict=False
)
