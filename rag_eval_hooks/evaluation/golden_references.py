"""Golden questions, whose references complete samples that ask the same."""

from __future__ import annotations

import csv
import io
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, Final

from pydantic import TypeAdapter, ValidationError

from rag_eval_hooks.config.settings import RagEvalConfig
from rag_eval_hooks.errors import ConfigError
from rag_eval_hooks.sample import Sample

MATCH: Final = "reference_match"
"""Key of a sample's metadata: `exact` where its reference is a golden question's."""
# Beside a `ground_truth`, an `answer` is what some pipeline answered.
_REFERENCE_KEYS: Final = ("reference", "ground_truth", "answer")
_ROW: Final = TypeAdapter(dict[str, Any])


@dataclass(frozen=True, slots=True)
class Golden:
    """One golden question with its right answer."""

    question: str
    reference: str
    question_id: str | None = None
    reference_ids: tuple[str, ...] | None = None


class References:
    """References for samples without one, by an equal question.

    Where samples are redacted, questions are looked up before that (`before_redaction`), so that
    the reference is redacted with the rest of the sample. After that, golden questions with text
    to redact are not used, since their placeholders would differ.

    Args:
        golden: Golden questions; of equal ones the first counts.
        holds: Tells whether a text has something to redact; None where nothing is redacted.
    """

    def __init__(
        self, golden: Iterable[Golden], *, holds: Callable[[str], bool] | None = None
    ) -> None:
        self._by_question = {folded(one.question): one for one in reversed(list(golden))}
        self._holds = holds

    def before_redaction(self, sample: Sample) -> Sample:
        """Return the sample as `equal` does, before it is redacted."""
        golden = self._by_question.get(folded(sample.question))
        if sample.reference is not None or golden is None:
            return sample
        return replace(
            sample,
            reference=golden.reference,
            reference_ids=sample.reference_ids or golden.reference_ids,
            question_id=sample.question_id or golden.question_id,
            metadata={**sample.metadata, MATCH: "exact"},
        )

    def equal(self, sample: Sample) -> Sample:
        """Return the sample with the reference of an equal question, if there is one."""
        completed = self.before_redaction(sample)
        is_private = self._holds is not None and self._holds(completed.reference or "")
        return sample if is_private else completed


def read_golden(path: str) -> tuple[Golden, ...]:
    """Return the golden questions of a file.

    Args:
        path: A CSV file by its ending, with a header, else JSON lines. Keys: `question`,
            `reference` (or `ground_truth`, or `answer`), and `question_id` (or `id`) and
            `reference_ids` where they are known.

    Raises:
        ConfigError: The file cannot be read, or a line lacks a question or a reference.
    """
    try:
        text = Path(path).read_text(encoding="utf-8-sig")
    except (OSError, UnicodeDecodeError) as error:
        wants = f"a readable file in UTF-8 ({type(error).__name__})"
        raise ConfigError("references", path, wants) from None
    rows = _csv_rows(text, path) if path.lower().endswith(".csv") else _json_rows(text, path)
    golden = tuple(_golden(row, f"{path}:{line}") for line, row in rows)
    if not golden:
        raise ConfigError("references", path, "a file with at least one question")
    return golden


def _csv_rows(text: str, path: str) -> Iterator[tuple[int, Mapping[str, Any]]]:
    reader = csv.DictReader(io.StringIO(text, newline=""))
    try:
        if "question" not in (reader.fieldnames or ()):
            wants = "a header with 'question' and 'reference', and commas between"
            raise ConfigError("references", f"{path}:1", wants)
        for row in reader:
            yield reader.line_num, row
    except csv.Error as error:
        line = f"{path}:{reader.line_num}"
        raise ConfigError("references", line, f"lines of CSV ({error})") from None


def _json_rows(text: str, path: str) -> Iterator[tuple[int, Mapping[str, Any]]]:
    for number, line in enumerate(text.split("\n"), start=1):
        if line.strip():
            try:
                yield number, _ROW.validate_json(line)
            except ValidationError:
                wants = "a JSON object on each line"
                raise ConfigError("references", f"{path}:{number}", wants) from None


def _golden(row: Mapping[str, Any], line: str) -> Golden:
    reference = next((row[key] for key in _REFERENCE_KEYS if row.get(key)), None)
    texts = {"question": row.get("question"), "reference": reference}
    for name, value in texts.items():
        if not isinstance(value, str) or not value.strip():
            raise ConfigError("references", line, f"a {name}, a text that is not blank")
    given = row.get("question_id", row.get("id"))
    question_id = None if given in (None, "") else str(given)
    ids = row.get("reference_ids")
    if isinstance(ids, str):
        ids = ids.replace(",", " ").split()
    if not isinstance(ids, list | None):
        raise ConfigError("references", line, "reference_ids, a list or ids with spaces between")
    reference_ids = tuple(map(str, ids)) if ids else None
    return Golden(str(texts["question"]), str(texts["reference"]), question_id, reference_ids)


def folded(question: str) -> str:
    """Return a question as equal ones are compared: without case or extra spaces."""
    return " ".join(question.split()).casefold()


def references_of(
    config: RagEvalConfig, holds: Callable[[str], bool] | None = None
) -> References | None:
    """Return the references that the settings name, or None.

    Raises:
        ConfigError: The file cannot be used.
    """
    if config.references is None:
        return None
    return References(read_golden(config.references), holds=holds)
