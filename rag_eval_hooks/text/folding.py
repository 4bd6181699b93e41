"""Normalizes text and splits text into words, for any script and without a model."""

from __future__ import annotations

import re
import tomllib
import unicodedata
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from functools import lru_cache, wraps
from importlib.resources import files
from typing import Any, Final, TypeVar

R = TypeVar("R")

_PART: Final = re.compile(r"(?<!P)<(\w+)>")


def toml_of(name: str, package: str = "rag_eval_hooks.text") -> dict[str, Any]:
    return tomllib.loads(files(package).joinpath(name).read_text("utf-8"))


class LazyPatterns(dict[str, re.Pattern[str]]):
    """Compiles each pattern on first use, to keep the package's import fast."""

    def __init__(self, texts: Mapping[str, str], flags: int = 0) -> None:
        super().__init__()
        self.texts, self._flags = texts, flags

    def __missing__(self, name: str) -> re.Pattern[str]:
        self[name] = pattern = re.compile(self.texts[name], self._flags)
        return pattern


def compiled(
    given: Mapping[str, str | list[str]],
    parts: Mapping[str, str] | None = None,
    flags: int = re.IGNORECASE,
) -> LazyPatterns:
    # `<name>` in a pattern stands for `parts[name]`. If `parts` is None, `<name>` stands for the
    # pattern `given[name]`, and the result omits that pattern.
    texts = {name: "|".join(one) if isinstance(one, list) else one for name, one in given.items()}
    inserted = {name for text in texts.values() for name in _PART.findall(text)}
    left_out, known = (inserted, texts) if parts is None else (set[str](), parts)

    def whole(text: str) -> str:
        replaced = _PART.sub(lambda part: known[part[1]], text)
        return text if replaced == text else whole(replaced)

    named = {name: whole(text) for name, text in texts.items() if name not in left_out}
    return LazyPatterns(named, flags)


_PIECE: Final = 1_000  # number of start positions that each call of `re` tries
_LONGEST_MATCH: Final = 300


def matches_of(pattern: re.Pattern[str], text: str) -> Iterator[re.Match[str]]:
    # `re` holds the GIL during a call, so each call searches only one piece of the text. Matches
    # longer than `_LONGEST_MATCH` may be missing.
    start = 0
    while start < len(text):
        limit = start + _PIECE
        for match in pattern.finditer(text, start, limit + _LONGEST_MATCH):
            if match.start() >= limit:
                break
            yield match
            start = match.end()
        start = max(start, limit)


# scripts without spaces between words, or with particles attached to words (Korean)
CJK = "\u3040-\u30ff\u3400-\u4dbf\u4e00-\u9fff\uac00-\ud7af\uf900-\ufaff\U00020000-\U0003ffff"
# In these blocks, vowel signs are part of a word, but Python's \w does not match them.
_SIGNS = "\u0900-\u0963\u0966-\u0dff\u0e00-\u0eff\u1000-\u1049\u1780-\u17d3"

_UNSEEN = dict.fromkeys([0x00AD, *range(0x200B, 0x2010), 0x2060, 0xFEFF])
_MARKS = [*range(0x0300, 0x0370), *range(0x0591, 0x05C8), 0x0640, *range(0x064B, 0x0660), 0x0670]
_ACCENTS = _UNSEEN | dict.fromkeys(_MARKS)
_QUOTES = str.maketrans("\u2018\u2019\u201b\u02bc\u201c\u201d", "''''\"\"")
_NUMBER = r"[0-9]+(?:[.,][0-9]+)*(?![a-z0-9])"
_SUFFIX = r"(?:'[a-z]{1,2}(?![a-z]))?"  # "don't" and "we're" are one word, but "l'eau" is two words
_ASCII_TOKEN = re.compile(rf"{_NUMBER}|[a-z0-9]+{_SUFFIX}")
_JOINED = re.compile(r"[0-9][.,][0-9]")
SPACED = {code: " " for code in range(128) if not chr(code).isalnum()}
CJK_PATTERNS: Final = LazyPatterns(
    {
        "any": f"[{CJK}]",
        "token": rf"[{CJK}]+|{_NUMBER}|(?:(?![{CJK}])[^\W_]|[{_SIGNS}])+{_SUFFIX}",
        "word": rf"[{CJK}]|(?:(?![{CJK}])\S)+",
    }
)
_SPACES = re.compile(r"\s{3,}")
_LONGEST_RUN = 40  # longer repetitions slow down regular expressions
_RUN = re.compile(rf"(.)\1{{{_LONGEST_RUN},}}", re.DOTALL)


def collapse_runs(text: str) -> str:
    spaced = _SPACES.sub(lambda run: "\n\n" if "\n" in run[0] else " ", text.translate(_UNSEEN))
    return _RUN.sub(lambda run: run[0][:_LONGEST_RUN], spaced)


def word_set(words: str) -> frozenset[str]:
    return frozenset(words.split())


WORDS: Final[Mapping[str, Mapping[str, frozenset[str]]]] = {
    kind: {name: word_set(listed) for name, listed in lists.items()}
    for kind, lists in toml_of("words.toml").items()
}
STOP_WORDS: Final = frozenset[str]().union(*WORDS["stop"].values())


def squash(text: str) -> str:
    return " ".join(unicodedata.normalize("NFC", text).casefold().split())


def fold(text: str) -> str:
    if not text.isascii():
        text = unicodedata.normalize("NFKD", text.translate(_QUOTES).casefold())
        # NFC keeps the voicing marks of Japanese kana, which distinguish words.
        text = unicodedata.normalize("NFC", text.translate(_ACCENTS))
    return " ".join(text.casefold().split())


def tokens(text: str) -> list[str]:
    return folded_tokens(fold(text))


def folded_tokens(folded: str) -> list[str]:
    plain = folded.isascii()
    if plain and "'" not in folded and _JOINED.search(folded) is None:
        return folded.translate(SPACED).split()  # a faster path for most texts
    words: list[str] = (_ASCII_TOKEN if plain else CJK_PATTERNS["token"]).findall(folded)
    if plain and "'s" not in folded:
        return words
    found: list[str] = []
    for word in words:
        if word[0] >= "\u3040" and CJK_PATTERNS["any"].match(word):
            found += [word[at : at + 2] for at in range(len(word) - 1)] or [word]
        else:
            found.append(word.removesuffix("'s"))
    return found


def has_cjk(text: str) -> bool:
    return not text.isascii() and CJK_PATTERNS["any"].search(text) is not None


def content_tokens(text: str) -> list[str]:
    return [token for token in tokens(text) if is_content(token)]


def is_content(token: str) -> bool:
    return token not in STOP_WORDS and (len(token) > 1 or token.isdigit() or token > "\u02ff")


def distinct(texts: Iterable[str]) -> list[str]:
    first: dict[tuple[str, ...], str] = {}
    for text in texts:
        first.setdefault(tuple(tokens(text)), text)
    first.pop((), None)
    return list(first.values())


def word_count(text: str) -> int:
    runs = CJK_PATTERNS["word"].findall(fold(text))
    return sum(has_cjk(run) or any(map(str.isalnum, run)) for run in runs)


_ENDINGS = ("ations", "ation", "ingly", "ments", "ment", "ness", "ings", "ing", "edly", "ies",
            "ied", "est", "ers", "er", "ed", "es", "ly", "s", "e", "y")  # fmt: skip


def stem(token: str) -> str:
    if not token.isascii() or len(token) < 4:
        return token
    if len(token) == 4:
        if token[-1] == "y":
            return token[:-1] + "i"  # the stem of "cities"
        return token[:-1] if token[-1] == "s" and token[-2] != "s" else token
    if not token.isalpha():
        return token
    for ending in _ENDINGS if token.endswith(_ENDINGS) else ():
        if token.endswith(ending) and len(token) - len(ending) >= 4:
            token = token[: -len(ending)]
            break
    return token[:-1] if len(token) > 4 and token[-1] == token[-2] else token


FUNCTION_WORDS: Final = WORDS["function"]  # function words by language code


def language(words: Sequence[str]) -> str | None:
    found = frozenset(words)
    counts = {code: len(found & known) for code, known in FUNCTION_WORDS.items()}
    *_, second, most = sorted(counts, key=counts.__getitem__)
    return most if counts[most] > max(1, counts[second]) else None


def cache_short(maxsize: int) -> Callable[[Callable[[str], R]], Callable[[str], R]]:
    """Return a decorator like `lru_cache` that stores results only for short texts."""

    def decorate(function: Callable[[str], R]) -> Callable[[str], R]:
        cached = lru_cache(maxsize)(function)

        @wraps(function)
        def call(text: str) -> R:
            return cached(text) if len(text) <= _LONGEST_MATCH else function(text)

        return call

    return decorate
