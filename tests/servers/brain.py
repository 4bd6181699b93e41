"""A small truthful judge: it reads our prompts as a model would, and answers by plain rules.

A claim is supported by a chunk that holds its text, an entity is found where it stands, a chunk
is useful when it shares words with what it is judged by. So a test can say beforehand what the
right verdicts are.
"""

from __future__ import annotations

import hashlib
import json
import math
import re
from collections.abc import Callable, Mapping
from typing import Any

__all__ = ["asked_groups", "embedding", "prompt_data", "truthful_reply"]

_BLOCK = re.compile(r"<data ([0-9a-f]{12})>\n(.*?)\n</data \1>", re.DOTALL)
_SHAPE = re.compile(r"\nThe reply has this shape: (\{.*\})$", re.DOTALL)
_ONLY = re.compile(r"^- (\w+): only for (.*)\.$", re.MULTILINE)
_ENTITY = re.compile(r"\b(?:[A-Z][a-z]+(?: [A-Z][a-z]+)*|\d[\d.,]*\d|\d)\b")
_EVASION = ("do not know", "don't know", "not sure", "cannot say")
_DIMENSIONS = 64


def truthful_reply(body: Mapping[str, Any]) -> dict[str, Any]:
    """The right reply to a chat request that holds one of our prompts."""
    data = prompt_data(body)
    only = _only(_user_text(body))
    return {name: _GROUPS[name](data, only.get(name)) for name in asked_groups(body)}


def asked_groups(body: Mapping[str, Any]) -> list[str]:
    """The groups that the request's schema, or the shape in its text, asks for."""
    schema = body.get("response_format", {}).get("json_schema", {}).get("schema")
    if schema is not None:
        return list(schema["properties"])
    shape = _SHAPE.search(_user_text(body))
    return list(json.loads(shape.group(1))) if shape else []


def prompt_data(body: Mapping[str, Any]) -> dict[str, Any]:
    """Everything between the data delimiters of the request's user text."""
    data: dict[str, Any] = {}
    for _token, document in _BLOCK.findall(_user_text(body)):
        data |= json.loads(document)
    return data


def embedding(text: str) -> list[float]:
    """A unit vector of hashed words: equal words, equal directions."""
    vector = [0.0] * _DIMENSIONS
    for word in re.findall(r"\w+", text.casefold()):
        vector[hashlib.blake2b(word.encode(), digest_size=2).digest()[0] % _DIMENSIONS] += 1.0
    length = math.sqrt(sum(x * x for x in vector))
    return [x / length for x in vector] if length else [1.0, *vector[1:]]


def _user_text(body: Mapping[str, Any]) -> str:
    return "\n".join(m["content"] for m in body["messages"] if m["role"] == "user")


def _only(text: str) -> dict[str, list[str]]:
    return {name: keys.split(", ") for name, keys in _ONLY.findall(text)}


def _sentences(text: str) -> list[str]:
    parts = [part.strip() for part in re.split(r"(?<=[.!?])\s+", text)]
    return [part.rstrip(".!") for part in parts if part and not part.endswith("?")]


def _plain(text: str) -> str:
    return " ".join(text.casefold().split())


def _holds(text: str, part: str) -> bool:
    return _plain(part).rstrip(".") in _plain(text)


def _numbered(texts: list[str]) -> dict[str, Any]:
    items = [{"n": number, "text": text} for number, text in enumerate(texts, start=1)]
    return {"items": items, "count": len(items)}


def _claims(text: str) -> dict[str, Any]:
    evasive = any(phrase in _plain(text) for phrase in _EVASION)
    return _numbered([] if evasive else _sentences(text))


def _questions(answer: str) -> dict[str, Any]:
    evasive = any(phrase in _plain(answer) for phrase in _EVASION)
    told = _sentences(answer)[:1]
    forms = ("Is it true that {}?", "Who says that {}?", "Why is it that {}?")
    texts = [form.format(sentence) for sentence in told for form in forms]
    return {**_numbered([] if evasive else texts), "noncommittal": evasive}


def _open(items: Mapping[str, str], only: list[str] | None) -> dict[str, str]:
    return {key: text for key, text in items.items() if only is None or key in only}


def _support(claims: Mapping[str, str], chunks: Mapping[str, str]) -> list[dict[str, Any]]:
    rows = []
    for key, claim in claims.items():
        yes = [int(n) for n, chunk in chunks.items() if _holds(chunk, claim)]
        parts = claim.split(" and ")
        spread = [any(_holds(chunk, part) for chunk in chunks.values()) for part in parts]
        rows.append(
            {
                "id": key,
                "supporting": yes,
                "not_supporting": [int(n) for n in chunks if int(n) not in yes],
                "together": not yes and len(parts) > 1 and all(spread),
                "reason": "stands there" if yes else "",
            }
        )
    return rows


def _agreement(claims: Mapping[str, str], text: str) -> list[dict[str, Any]]:
    return [
        {"id": key, "holds": _holds(text, claim), "reason": ""} for key, claim in claims.items()
    ]


def _found(entities: Mapping[str, str], chunks: Mapping[str, str]) -> list[dict[str, Any]]:
    found = {k: any(_holds(c, e) for c in chunks.values()) for k, e in entities.items()}
    return [{"id": key, "found": hit, "reason": ""} for key, hit in found.items()]


def _relevance(data: Mapping[str, Any], only: list[str] | None) -> list[dict[str, Any]]:
    target = data.get("reference", data.get("answer", data["question"]))
    wanted = set(re.findall(r"\w{4,}", target.casefold()))
    rows = []
    for number, chunk in _open(data["chunks"], only).items():
        share = len(wanted & set(re.findall(r"\w{4,}", chunk.casefold()))) / max(len(wanted), 1)
        rows.append(
            {
                "chunk": int(number),
                "useful": share >= 0.5,
                "rating": round(100 * share),
                "reason": f"shares {share:.0%} of the words",
            }
        )
    return rows


_GROUPS: Mapping[str, Callable[[dict[str, Any], list[str] | None], Any]] = {
    "answer_claims": lambda data, _only: _claims(data["answer"]),
    "reference_claims": lambda data, _only: _claims(data["reference"]),
    "entities": lambda data, _only: _numbered(
        list(dict.fromkeys(_ENTITY.findall(data["reference"])))
    ),
    "questions": lambda data, _only: _questions(data["answer"]),
    "answer_support": lambda data, only: _support(
        _open(data["answer_claims"], only), data["chunks"]
    ),
    "reference_support": lambda data, only: _support(
        _open(data["reference_claims"], only), data["chunks"]
    ),
    "answer_agreement": lambda data, only: _agreement(
        _open(data["answer_claims"], only), data["reference"]
    ),
    "reference_agreement": lambda data, only: _agreement(
        _open(data["reference_claims"], only), data["answer"]
    ),
    "relevance": _relevance,
    "entities_found": lambda data, only: _found(_open(data["entities"], only), data["chunks"]),
}
