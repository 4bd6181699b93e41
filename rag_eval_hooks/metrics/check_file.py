"""Question checks, and how they are read from the text of a TOML file."""

from __future__ import annotations

import re
import tomllib
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any, Final, Never, TypeAlias

from rag_eval_hooks.errors import ConfigError
from rag_eval_hooks.text.folding import tokens
from rag_eval_hooks.text.key_terms import Keyword, Searched
from rag_eval_hooks.text.numbers import Number, numbers

__all__ = [
    "CalculationCheck",
    "Check",
    "Evidence",
    "FactsCheck",
    "ListCheck",
    "parse_checks",
]

_ID: Final = re.compile(r"[\w.-]+")


@dataclass(frozen=True, slots=True, kw_only=True)
class Evidence:
    """Evidence that an answer holds a fact: any one of these.

    Attributes:
        words: Words or phrases, found as whole words in any case.
        numbers: Values, found however they are written; the sign and the percent sign count.
        signs: Signs of arithmetic, found between two operands.
    """

    words: tuple[str, ...] = ()
    numbers: tuple[Number, ...] = ()
    signs: tuple[str, ...] = ()

    def stands_in(self, answer: str) -> bool:
        """Return whether the answer holds any of it."""
        searched = Searched.of(answer)
        wanted: tuple[Keyword, ...] = (*self.words, *self.numbers)
        held = any(searched.holds(keyword) for keyword in wanted)
        return held or any(_computes(sign, answer) for sign in self.signs)


@dataclass(frozen=True, slots=True, kw_only=True)
class ListCheck:
    r"""Check of the items of the reference's list that the answer lists.

    Items are those of Markdown lists, each by its name: the text before a colon or dash. What one
    of the patterns matches is an item too, wherever it stands; a list item that holds such a match
    is known by it alone.

    Attributes:
        question_id: The question.
        patterns: Regular expressions, such as `Rule C-\d+`; case does not matter.
    """

    question_id: str
    patterns: tuple[re.Pattern[str], ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class FactsCheck:
    """Check of the facts that the answer holds.

    Attributes:
        question_id: The question.
        facts: Evidence by the fact's name.
    """

    question_id: str
    facts: Mapping[str, Evidence]


@dataclass(frozen=True, slots=True, kw_only=True)
class CalculationCheck:
    """Check of the result of a calculation.

    Attributes:
        question_id: The question.
        facts: Evidence by the fact's name.
        holds: Facts that a correct answer holds.
        lacks: Facts that a correct answer does not hold.
    """

    question_id: str
    facts: Mapping[str, Evidence]
    holds: tuple[str, ...]
    lacks: tuple[str, ...] = ()


Check: TypeAlias = ListCheck | FactsCheck | CalculationCheck


def parse_checks(text: str, file: str = "question_checks") -> tuple[Check, ...]:
    """Return the checks of a file: one table per `question_id`, with `kind` and its keys.

    Args:
        text: TOML. `kind = "list"` takes `patterns`; `kind = "facts"` takes the table `facts`,
            whose values are tables with any of `words`, `numbers`, `signs`;
            `kind = "calculation"` takes `facts` and `correct = {holds = [...], lacks = [...]}`.
        file: The file's name, for errors.

    Raises:
        ConfigError: The text is no TOML, or a key has no usable value; the error names the file
            and the key.
    """
    try:
        tables = tomllib.loads(text)
    except tomllib.TOMLDecodeError as error:
        raise ConfigError(file, "text that is no TOML", f"TOML; {error}") from None
    return tuple(_check(name, Table(table, f"{file}: {name}")) for name, table in tables.items())


class Table:
    """A TOML table whose keys are taken one by one; what is left over is an error."""

    def __init__(self, values: object, path: str) -> None:
        self._path = path
        if not isinstance(values, dict):
            raise ConfigError(path, values, "a table")
        self._values: dict[str, Any] = dict(values)

    def take(self, key: str, default: Any = None) -> Any:
        """Remove a key and return its value."""
        return self._values.pop(key, default)

    def table(self, key: str) -> Table:
        """Remove and return a nested table."""
        return Table(self.take(key), f"{self._path}.{key}")

    def tables(self) -> Mapping[str, Table]:
        """Return the remaining keys as tables."""
        found = {key: Table(value, f"{self._path}.{key}") for key, value in self._values.items()}
        self._values = {}
        return found

    def texts(self, key: str) -> tuple[str, ...]:
        """Remove and return a list of texts that are not blank; empty if the key is absent."""
        values = self.take(key, [])
        if not isinstance(values, list):
            self.refuse(key, values, "a list")
        for value in values:
            if not isinstance(value, str | int | float) or isinstance(value, bool):
                self.refuse(key, value, "text")
            if not str(value).strip():
                self.refuse(key, value, "text that is not blank")
        return tuple(map(str, values))

    def refuse(self, key: str, got: object, wants: str) -> Never:
        """Raise the error for a key."""
        raise ConfigError(f"{self._path}.{key}", got, wants)

    def end(self, *known: str) -> None:
        """Raise an error if a key is left over."""
        for key, value in self._values.items():
            self.refuse(key, value, "no such key; known are " + ", ".join(known))


def _check(question_id: str, table: Table) -> Check:
    if not _ID.fullmatch(question_id):
        table.refuse("question_id", question_id, "letters, digits, '_', '-' and '.'")
    kind = table.take("kind")
    if not isinstance(kind, str) or kind not in _KINDS:
        table.refuse("kind", kind, "one of " + ", ".join(_KINDS))
    return _KINDS[kind](question_id, table)


def _list(question_id: str, table: Table) -> Check:
    patterns = []
    for pattern in table.texts("patterns"):
        try:
            patterns.append(re.compile(pattern, re.IGNORECASE))
        except re.error as error:
            table.refuse("patterns", pattern, f"a regular expression; {error}")
    table.end("kind", "patterns")
    return ListCheck(question_id=question_id, patterns=tuple(patterns))


def _facts(question_id: str, table: Table) -> Check:
    facts = _evidence_by_name(table)
    table.end("kind", "facts")
    return FactsCheck(question_id=question_id, facts=facts)


def _calculation(question_id: str, table: Table) -> Check:
    facts = _evidence_by_name(table)
    correct = table.table("correct")
    holds, lacks = (_known(correct, key, facts) for key in ("holds", "lacks"))
    if not holds:
        correct.refuse("holds", [], "the name of at least one fact")
    correct.end("holds", "lacks")
    table.end("kind", "facts", "correct")
    return CalculationCheck(question_id=question_id, facts=facts, holds=holds, lacks=lacks)


_KINDS: Final[Mapping[str, Callable[[str, Table], Check]]] = {
    "list": _list,
    "facts": _facts,
    "calculation": _calculation,
}


def _evidence_by_name(table: Table) -> dict[str, Evidence]:
    named = {name: _evidence(each) for name, each in table.table("facts").tables().items()}
    if not named:
        table.refuse("facts", {}, "at least one fact")
    return named


def _evidence(table: Table) -> Evidence:
    words, signs = table.texts("words"), table.texts("signs")
    for phrase in words:
        if not tokens(phrase):
            table.refuse("words", phrase, "words with a letter or digit")
    values = tuple(_number(table, text) for text in table.texts("numbers"))
    table.end("words", "numbers", "signs")
    if not (words or signs or values):
        table.refuse("words", (), "at least one of words, numbers, signs")
    return Evidence(words=words, numbers=values, signs=signs)


def _number(table: Table, text: str) -> Number:
    found = numbers(text)
    if len(found) != 1:
        table.refuse("numbers", text, "one number, such as '604', '$1,000' or '-0.133%'")
    return found[0]


def _known(table: Table, key: str, facts: Mapping[str, Evidence]) -> tuple[str, ...]:
    names = table.texts(key)
    for name in names:
        if name not in facts:
            table.refuse(key, name, "one of the facts " + ", ".join(facts))
    return names


def _computes(sign: str, answer: str) -> bool:
    """Return whether a sign of arithmetic stands between numbers, or alone between words.

    Neither the x of a word nor the asterisk of a Markdown bullet or of bold text computes.
    """
    sign = re.escape(sign)
    between_numbers = rf"[0-9)%]\s?{sign}\s?[-+$\u20ac\u00a3(]*[0-9]"
    between_words = rf"[\w)%][ \t]+{sign}[ \t]+[\w($\u20ac\u00a3]"
    plain = answer.replace("**", "").replace("__", "").replace("`", "")
    return re.search(f"{between_numbers}|{between_words}", plain, re.IGNORECASE) is not None
