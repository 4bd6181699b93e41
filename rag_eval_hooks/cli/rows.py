"""Questions and passages from JSON lines, with errors that name line and field."""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field, replace
from importlib import resources
from importlib.resources.abc import Traversable
from pathlib import Path
from types import MappingProxyType
from typing import Any

from rag_eval_hooks.cli import UsageError
from rag_eval_hooks.cli.quoting import Mistake

__all__ = ["Corpus", "QuestionRow", "built_in_corpus", "corpus_from"]

_EMPTY: Mapping[str, Any] = MappingProxyType({})


@dataclass(frozen=True, slots=True, kw_only=True)
class QuestionRow:
    """Question of the demo.

    Attributes:
        id: Unique within the file.
        question: Text of the question.
        reference: Right answer, or None if unknown.
        mistake: Mistake that the demo's own model makes in its answer, or None.
        labels: Labels of the row in the file; become metadata of the sample.
    """

    id: str
    question: str
    reference: str | None = None
    mistake: Mistake | None = None
    labels: Mapping[str, Any] = field(default_factory=lambda: _EMPTY)


@dataclass(frozen=True, slots=True)
class Corpus:
    """Passages to retrieve from, and questions.

    Attributes:
        name: Origin, in a few words.
        passages: Texts to retrieve from, each once.
        rows: Questions, in the file's order.
    """

    name: str
    passages: tuple[str, ...]
    rows: tuple[QuestionRow, ...]

    @property
    def mistakes(self) -> dict[str, Mistake]:
        """Mistakes of the quoting model, by question."""
        return {row.question: row.mistake for row in self.rows if row.mistake is not None}

    def without_mistakes(self) -> Corpus:
        """Return a copy for a model that makes no mistakes on request."""
        return replace(self, rows=tuple(replace(row, mistake=None) for row in self.rows))


def built_in_corpus(limit: int | None = None) -> Corpus:
    """Return the handbook of an invented ferry line, with questions of three kinds.

    Most can be answered, some cannot, and some are answered wrongly on purpose.
    """
    data = resources.files("rag_eval_hooks.cli") / "data"
    passages = _passages(data / "passages.jsonl")
    rows = tuple(row for row, _ in _questions(data / "questions.jsonl"))
    return Corpus("handbook of the Skerrow Line (invented)", tuple(passages), rows[:limit])


def corpus_from(data: Path, passages: Path | None = None, limit: int | None = None) -> Corpus:
    """Return the user's own questions; the passages are all contexts of the file and `passages`.

    Args:
        data: A file with `id`, `question`, `contexts` (texts) and, if known, `reference` and
            `labels` on each line. Further keys, `answer` among them, are not read.
        passages: A file with `text` on each line.
        limit: Ask only so many questions; the passages are those of the whole file.

    Raises:
        UsageError: A file cannot be read or a line is wrong; names file, line and field.
    """
    questions = list(_questions(data))
    texts = [text for _, contexts in questions for text in contexts]
    if passages is not None:
        texts += _passages(passages)
    if not texts:
        raise UsageError(f"{data}: contexts: no line has any; wants passages to retrieve from")
    rows = tuple(row for row, _ in questions)
    return Corpus(data.name, tuple(dict.fromkeys(texts)), rows[:limit])


def _questions(path: Traversable) -> Iterator[tuple[QuestionRow, tuple[str, ...]]]:
    seen: set[str] = set()
    for line in _lines(path):
        row = QuestionRow(
            id=line.text("id"),
            question=line.text("question"),
            reference=line.optional("reference", str, "a text or null"),
            mistake=line.mistake(),
            labels=line.optional("labels", dict, "an object") or _EMPTY,
        )
        if row.id in seen:
            raise line.error("id", row.id, "an id that no earlier line has")
        seen.add(row.id)
        yield row, line.texts("contexts")
    if not seen:
        raise UsageError(f"{path}: no lines; wants one question a line")


def _passages(path: Traversable) -> list[str]:
    return [line.text("text") for line in _lines(path)]


@dataclass(frozen=True, slots=True)
class _Line:
    path: Traversable
    number: int
    values: Mapping[str, Any]

    def error(self, name: str, got: object, wants: str) -> UsageError:
        return UsageError(f"{self.path}:{self.number}: {name}: got {_brief(got)}; wants {wants}")

    def text(self, name: str) -> str:
        value = self.values.get(name)
        if not isinstance(value, str) or not value.strip():
            raise self.error(name, value, "a text that is not blank")
        return value

    def optional(self, name: str, kind: type, wants: str) -> Any:
        value = self.values.get(name)
        if value is not None and not isinstance(value, kind):
            raise self.error(name, value, wants)
        return value

    def texts(self, name: str) -> tuple[str, ...]:
        values = self.optional(name, list, "a list of texts") or []
        for value in values:
            if not isinstance(value, str):
                raise self.error(name, value, "a list of texts")
        return tuple(value for value in values if value.strip())

    def mistake(self) -> Mistake | None:
        value = self.optional("mistake", str, "a text")
        if value is None:
            return None
        known = [kind.value for kind in Mistake]
        if value not in known:
            raise self.error("mistake", value, "one of " + ", ".join(known))
        return Mistake(value)


def _lines(path: Traversable) -> Iterator[_Line]:
    try:
        content = path.read_text(encoding="utf-8")
    except (OSError, UnicodeDecodeError) as error:
        raise UsageError(f"{path}: cannot be read: {error}") from None
    # str.splitlines would also cut at separators that JSON allows inside a text.
    for number, text in _numbered(content.split("\n")):
        try:
            values = json.loads(text)
        except json.JSONDecodeError as error:
            raise UsageError(f"{path}:{number}: no JSON: {error.msg}") from None
        if not isinstance(values, dict):
            raise UsageError(f"{path}:{number}: got {_brief(values)}; wants a JSON object")
        yield _Line(path, number, values)


def _numbered(lines: Iterable[str]) -> Iterator[tuple[int, str]]:
    return ((number, line) for number, line in enumerate(lines, start=1) if line.strip())


def _brief(value: object) -> str:
    """Return the value as JSON, shortened for an error that the file's owner reads."""
    shown = "nothing" if value is None else json.dumps(value, ensure_ascii=False)
    return shown if len(shown) <= 40 else shown[:39] + "…"
