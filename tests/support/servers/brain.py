"""A truthful judge that reads our prompts and answers by plain rules, in any language."""

# ruff: noqa: RUF001 - it reads such characters

from __future__ import annotations

import hashlib
import json
import math
import re
from collections.abc import Callable, Mapping, Sequence
from functools import lru_cache
from typing import Any

ENTITY = re.compile(
    r"(?<![A-Za-z\d])(?:[A-ZÄÖÜ][a-zäöüß]+(?: [A-ZÄÖÜ][a-zäöüß]+)*|\d[\d.,]*\d|\d)"
    r"(?![A-Za-zäöüß\d])|(?<=「).+?(?=」)"
)
"""Names with capitals or in corner brackets, and numbers."""

_EVASION = (
    "do not know",
    "don't know",
    "not sure",
    "cannot say",
    "weiß nicht",
    "我不知道",
    "わかりません",
    "لا أعرف",
)
_STOP = re.compile(r"(?<=[.!?؟])\s+|(?<=[。！？])")
_KANA = re.compile(r"[\u3040-\u30ff]")
_HAN = re.compile(r"[\u4e00-\u9fff]")
_ASCII_WORD = re.compile(r"\w{4,}", re.ASCII)
_WORD = re.compile(r"[\u3040-\u30ff\u4e00-\u9fff]{2,}|(?:(?![\u3040-\u30ff\u4e00-\u9fff])\w){4,}")
QUESTION_FORMS = ("Is it true that {}?", "Who says that {}?", "Why is it that {}?")


def sentences(text: str) -> list[str]:
    parts = [part.strip() for part in _STOP.split(text)]
    return [part.rstrip(".!。！") for part in parts if part and part[-1] not in "?？؟"]


def evasive(text: str) -> bool:
    return any(phrase in _plain(text) for phrase in _EVASION)


def indistinct(text: str) -> bool:
    return evasive(text) or not sentences(text)


def holds(text: str, part: str) -> bool:
    return _plain(part).rstrip(".。") in _plain(text)


def share_held(text: str, *others: str) -> float:
    told = [] if evasive(text) else sentences(text)
    return sum(any(holds(o, one) for o in others) for one in told) / max(len(told), 1)


def shared_words(wanted: str, text: str) -> float:
    words = _words(wanted)
    return len(words & _words(text)) / max(len(words), 1)


@lru_cache(maxsize=512)
def _words(text: str) -> frozenset[str]:
    if text.isascii():
        return frozenset(_ASCII_WORD.findall(text.casefold()))
    found: set[str] = set()
    for word in _WORD.findall(text.casefold()):
        spaced = not (_KANA.search(word) or _HAN.search(word))
        found |= {word} if spaced else {word[i : i + 2] for i in range(len(word) - 1)}
    return frozenset(found)


@lru_cache(maxsize=512)
def _plain(text: str) -> str:
    return " ".join(text.casefold().split())


_BLOCK = re.compile(r"<data ([0-9a-f]{12})>\n(.*?)\n</data \1>", re.DOTALL)
_ASKED = re.compile(r"^- (\w+): (?!only for )", re.MULTILINE)
_ONLY = re.compile(r"^- (\w+): only for (.*)\.$", re.MULTILINE)
_DIMENSIONS = 64
Data = dict[str, Any]
Only = list[str] | None


def truthful_reply(body: Mapping[str, Any]) -> dict[str, Any]:
    data = prompt_data(body)
    text = _user_text(body)
    only = {name: keys.split(", ") for name, keys in _ONLY.findall(text)}
    asked = {name: GROUPS[name](data, only.get(name)) for name in asked_groups(body)}
    return _empty_groups(body) | asked


def asked_groups(body: Mapping[str, Any]) -> list[str]:
    return [name for name in _ASKED.findall(_user_text(body)) if name in GROUPS]


def _empty_groups(body: Mapping[str, Any]) -> dict[str, Any]:
    schema = body.get("response_format", {}).get("json_schema", {}).get("schema", {})
    parts = schema.get("properties", {}).items()
    return {name: [] if part.get("type") == "array" else None for name, part in parts}


def prompt_data(body: Mapping[str, Any]) -> dict[str, Any]:
    data: dict[str, Any] = {}
    for _token, document in _BLOCK.findall(_user_text(body)):
        data |= json.loads(document)
    return data


def embedding(text: str) -> list[float]:
    vector = [0.0] * _DIMENSIONS
    for word in re.findall(r"\w+", text.casefold()):
        vector[hashlib.blake2b(word.encode(), digest_size=2).digest()[0] % _DIMENSIONS] += 1.0
    length = math.sqrt(sum(x * x for x in vector))
    return [x / length for x in vector] if length else [1.0, *vector[1:]]


class WordEmbedder:
    name = "words"

    async def embed(self, texts: Sequence[str]) -> list[list[float]]:
        return [embedding(text) for text in texts]

    async def aclose(self) -> None: ...


def _user_text(body: Mapping[str, Any]) -> str:
    return "\n".join(m["content"] for m in body["messages"] if m["role"] == "user")


def _numbered(texts: list[str]) -> dict[str, Any]:
    items = [{"n": number, "text": text} for number, text in enumerate(texts, start=1)]
    return {"items": items, "count": len(items)}


def _text(text: str | Mapping[str, str]) -> str:
    return text if isinstance(text, str) else " ".join(text.values())


def _claims(text: Mapping[str, str], only: Only) -> list[dict[str, Any]]:
    evades = evasive(_text(text))
    return [
        {"sentence": int(number), "claims": [] if evades else sentences(sentence)}
        for number, sentence in _open(text, only).items()
    ]


def _questions(answer: str) -> dict[str, Any]:
    told = [] if evasive(answer) else sentences(answer)[:1]
    texts = [form.format(sentence) for sentence in told for form in QUESTION_FORMS]
    return {**_numbered(texts), "noncommittal": evasive(answer)}


def _stance(data: Data, only: Only) -> list[dict[str, Any]]:
    names = only or [name for name in ("answer", "reference") if name in data]
    return [{"id": name, "indistinct": indistinct(_text(data[name]))} for name in names]


def _open(items: Mapping[str, str], only: Only) -> dict[str, str]:
    return {key: text for key, text in items.items() if only is None or key in only}


def _support(claims: Mapping[str, str], data: Data) -> list[dict[str, Any]]:
    return [_sorted_chunks(key, claim, data) for key, claim in claims.items()]


def _sorted_chunks(key: str, claim: str, data: Data) -> dict[str, Any]:
    chunks = {int(number): chunk for number, chunk in data["chunks"].items()}
    parts = claim.split(" and ")
    yes = [n for n, chunk in chunks.items() if all(holds(chunk, part) for part in parts)]
    spread = [any(holds(chunk, part) for chunk in chunks.values()) for part in parts]
    together = not yes and all(spread)
    verdict = _verdict(key, bool(yes) or together, " ... ".join(parts))
    return {**verdict, "chunks": yes, "together": together}


def _verdict(key: str, holds: bool, quote: str) -> dict[str, Any]:
    return {
        "id": key,
        "quote": quote if holds else "",
        "reason": "it stands there" if holds else "it stands nowhere",
        "verdict": "supported" if holds else "not_stated",
    }


def _agreement(claims: Mapping[str, str], text: str) -> list[dict[str, Any]]:
    return [_verdict(key, holds(text, claim), claim) for key, claim in claims.items()]


def _found(entities: Mapping[str, str], chunks: Mapping[str, str]) -> list[dict[str, Any]]:
    found = {k: any(holds(c, e) for c in chunks.values()) for k, e in entities.items()}
    return [{"id": key, "found": hit, "reason": "looked up"} for key, hit in found.items()]


def _relevance(data: Data, target: str, only: Only) -> list[dict[str, Any]]:
    rows = []
    for number, chunk in _open(data["chunks"], only).items():
        share = shared_words(target, chunk)
        row = {"chunk": int(number), "useful": share >= 0.5, "rating": round(100 * share)}
        rows.append({**row, "reason": f"shares {share:.0%} of the words"})
    return rows


def _relevance_by_best(data: Data, only: Only) -> list[dict[str, Any]]:
    names = [name for name in ("reference", "answer", "question") if name in data]
    return _relevance(data, str(data[names[0]]), only)


def _directness(data: Data) -> float:
    if evasive(data["answer"]):
        return 0.0
    return round(4 * shared_words(data["question"], data["answer"])) / 4


def _geval(data: Data, _only: Only) -> dict[str, Any]:
    scores = {
        "correctness": 100 * share_held(data["answer"], data["reference"]),
        "completeness": 100 * share_held(data["reference"], data["answer"]),
        "consistency": 0 if evasive(data["answer"]) else 100,
    }
    told = {name: {"reason": "by claims", "score": round(v)} for name, v in scores.items()}
    # A total that nobody asked for, and wrong: models do that.
    return {**told, "final_score": 7}


def _step(share: float) -> dict[str, Any]:
    return {"reason": "by claims", "value": 1 + round(4 * share)}


def _mutual(data: Data) -> float:
    there, back = (data["answer"], data["reference"]), (data["reference"], data["answer"])
    return (share_held(*there) + share_held(*back)) / 2


def _third(share: float) -> int:
    return 2 if share >= 1 else int(share > 0)


def _context_rating(data: Data) -> int:
    share = shared_words(data["question"], " ".join(data["chunks"].values()))
    return 2 if share >= 0.5 else int(share > 0)


GROUPS: Mapping[str, Callable[[Data, Only], Any]] = {
    "answer_claims": lambda data, only: _claims(data["answer"], only),
    "reference_claims": lambda data, only: _claims(data["reference"], only),
    "entities": lambda data, _only: _numbered(
        list(dict.fromkeys(ENTITY.findall(_text(data["reference"]))))
    ),
    "questions": lambda data, _only: _questions(_text(data["answer"])),
    "stance": _stance,
    "answer_support": lambda data, only: _support(_open(data["answer_claims"], only), data),
    "reference_support": lambda data, only: _support(_open(data["reference_claims"], only), data),
    "answer_agreement": lambda data, only: _agreement(
        _open(data["answer_claims"], only), data["reference"]
    ),
    "reference_agreement": lambda data, only: _agreement(
        _open(data["reference_claims"], only), data["answer"]
    ),
    "relevance": _relevance_by_best,
    "relevance_to_answer": lambda data, only: _relevance(data, data["answer"], only),
    "entities_found": lambda data, only: _found(_open(data["entities"], only), data["chunks"]),
    "direct_relevance": lambda data, _only: {"reason": "by words", "value": _directness(data)},
    "geval": _geval,
    "classification": lambda data, _only: {"reason": "by claims", "correct": _mutual(data) == 1},
    "correctness": lambda data, _only: _step(_mutual(data)),
    "alignment": lambda data, _only: _step(_directness(data)),
    "attitude": lambda data, _only: _step(
        indistinct(data["answer"]) == indistinct(data["reference"])
    ),
    "accuracy_ratings": lambda data, _only: (
        2 * _third(share_held(data["candidate"], data["standard"]))
    ),
    "context_ratings": lambda data, _only: _context_rating(data),
    "groundedness_ratings": lambda data, _only: _third(
        share_held(data["answer"], *data["chunks"].values())
    ),
}
