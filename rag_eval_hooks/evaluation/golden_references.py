"""Golden questions, whose references complete samples that ask the same."""

from __future__ import annotations

import asyncio
import csv
import io
import json
import math
import operator
import time
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, Final

from rag_eval_hooks.config.settings import RagEvalConfig
from rag_eval_hooks.errors import ConfigError
from rag_eval_hooks.incidents import Incidents, without_exit
from rag_eval_hooks.judges.base import Embedder
from rag_eval_hooks.judges.embeddings import embedded
from rag_eval_hooks.sample import Sample

__all__ = ["MATCH", "SIMILARITY", "Golden", "References", "folded", "read_golden", "references_of"]

MATCH: Final = "reference_match"
"""Key of a sample's metadata: how its reference was found, `exact` or `embedding`."""
SIMILARITY: Final = "reference_similarity"
"""Key of a sample's metadata: cosine of its question and the golden one."""
_BATCH: Final = 256
_PAUSE: Final = 30.0
"""Seconds until an embedder that failed is asked for the golden questions again."""
# Beside a `ground_truth`, an `answer` is what some pipeline answered.
_REFERENCE_KEYS: Final = ("reference", "ground_truth", "answer")


@dataclass(frozen=True, slots=True)
class Golden:
    """One golden question.

    Attributes:
        question: As it is asked.
        reference: The right answer.
        question_id: Its id, or None.
    """

    question: str
    reference: str
    question_id: str | None = None


class References:
    """References for samples without one: by an equal question, else by a similar one.

    Where samples are redacted, equal questions are looked up before that (`before_redaction`), so
    that the reference is redacted with the rest of the sample. After that, golden questions with
    text to redact are neither used nor embedded, since their placeholders would differ.

    Args:
        golden: Golden questions; of equal ones the first counts.
        threshold: Least cosine of similar questions, or None for equal questions only.
        embedder: Embeds questions; the golden ones once.
        timeout: Seconds that the search for a similar question may take for one sample.
        incidents: Counts failures of the embedder; the sample then gets no reference.
        clock: Monotonic seconds.
        holds: Tells whether a text has something to redact; None where nothing is redacted.
    """

    def __init__(
        self,
        golden: Iterable[Golden],
        *,
        threshold: float | None = None,
        embedder: Embedder | None = None,
        timeout: float = 120.0,
        incidents: Incidents,
        clock: Callable[[], float] = time.monotonic,
        holds: Callable[[str], bool] | None = None,
    ) -> None:
        self._by_question: dict[str, Golden] = {}
        for one in golden:
            self._by_question.setdefault(folded(one.question), one)
        self._golden = tuple(self._by_question.values())
        self._holds = holds
        self._threshold = threshold
        self._embedder = embedder
        self._timeout = timeout
        self._incidents = incidents
        self._clock = clock
        self._units: list[list[float]] = []
        self._made: list[list[float]] = []
        self._retry_at = 0.0
        self.forked()

    def forked(self) -> None:
        """Make it usable in a forked child, whose event loop is another."""
        self._making = asyncio.Lock()

    def before_redaction(self, sample: Sample) -> Sample:
        """Return the sample as `equal` does, before it is redacted."""
        if sample.reference is not None:
            return sample
        golden = self._by_question.get(folded(sample.question))
        return sample if golden is None else _completed(sample, golden, {MATCH: "exact"})

    def equal(self, sample: Sample) -> Sample:
        """Return the sample with the reference of an equal question, if there is one."""
        completed = self.before_redaction(sample)
        usable = completed is sample or self._is_open(completed.reference or "")
        return completed if usable else sample

    async def alike(self, sample: Sample) -> Sample:
        """Return the sample with the reference of a question that is similar enough."""
        if sample.reference is not None or self._threshold is None or not self._golden:
            return sample
        try:
            async with asyncio.timeout(self._timeout):
                index, similarity = await without_exit(self._closest(sample.question))
        except Exception as error:  # noqa: BLE001 - an embedder can be the user's own code
            self._incidents.report("references", error)
            return sample
        if similarity < self._threshold:
            return sample
        match = {MATCH: "embedding", SIMILARITY: round(similarity, 6)}
        return _completed(sample, self._golden[index], match)

    async def _closest(self, question: str) -> tuple[int, float]:
        """Return index and cosine of the most similar golden question; -1 if there is none."""
        assert self._embedder is not None
        async with self._making:
            if not self._units and self._clock() >= self._retry_at:
                await self._embed_golden(self._embedder)
        if not self._units:
            return 0, -1.0
        (vector,), _used = await embedded(self._embedder, [question])
        unit, best = _unit(vector), (-1.0, 0)
        for start in range(0, len(self._units), _BATCH):
            part = enumerate(self._units[start : start + _BATCH], start=start)
            best = max(best, *((_dot(unit, other), -index) for index, other in part))
            # A long file must not delay other samples.
            await asyncio.sleep(0)
        return -best[1], min(1.0, best[0])

    async def _embed_golden(self, embedder: Embedder) -> None:
        self._retry_at = self._clock() + _PAUSE
        # Rules take a while over a long file, and what is taken out must not reach the embedder.
        self._golden = await asyncio.to_thread(self._open_ones)
        texts = [one.question for one in self._golden]
        while len(self._made) < len(texts):
            part = texts[len(self._made) : len(self._made) + _BATCH]
            vectors, _used = await embedded(embedder, part)
            # Kept where the time of this sample runs out: the next one goes on from here, at once.
            self._made += map(_unit, vectors)
            self._retry_at = self._clock()
        self._units = self._made

    def _open_ones(self) -> tuple[Golden, ...]:
        return tuple(one for one in self._golden if self._is_open(one.question, one.reference))

    def _is_open(self, *texts: str) -> bool:
        return self._holds is None or not any(map(self._holds, texts))


def _unit(vector: Sequence[float]) -> list[float]:
    """Return the vector with length 1; a zero vector stays as it is and is similar to no other."""
    length = math.hypot(*vector)
    return [value / length for value in vector] if length else list(vector)


def _dot(left: Sequence[float], right: Sequence[float]) -> float:
    if len(left) != len(right):
        raise ValueError("the vectors have different lengths")
    return float(sum(map(operator.mul, left, right)))


def read_golden(path: str) -> tuple[Golden, ...]:
    """Return the golden questions of a file.

    Args:
        path: A CSV file by its ending, with a header, else JSON lines. Keys: `question`,
            `reference` (or `ground_truth`, or `answer`), and `question_id` (or `id`).

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
                row = json.loads(line)
            except (json.JSONDecodeError, RecursionError):
                row = None
            if not isinstance(row, dict):
                raise ConfigError("references", f"{path}:{number}", "a JSON object on each line")
            yield number, row


def _golden(row: Mapping[str, Any], line: str) -> Golden:
    question = row.get("question")
    reference = next((row[key] for key in _REFERENCE_KEYS if row.get(key)), None)
    for name, value in (("question", question), ("reference", reference)):
        if not isinstance(value, str) or not value.strip():
            raise ConfigError("references", line, f"a {name}, a text that is not blank")
    given = row.get("question_id", row.get("id"))
    question_id = None if given in (None, "") else str(given)
    return Golden(str(question), str(reference), question_id)


def _completed(sample: Sample, golden: Golden, match: Mapping[str, Any]) -> Sample:
    return replace(
        sample,
        reference=golden.reference,
        question_id=sample.question_id or golden.question_id,
        metadata={**sample.metadata, **match},
    )


def folded(question: str) -> str:
    """Return a question as equal ones are compared: without case or extra spaces."""
    return " ".join(question.split()).casefold()


def references_of(
    config: RagEvalConfig,
    embedder: Embedder | None,
    incidents: Incidents,
    holds: Callable[[str], bool] | None = None,
) -> References | None:
    """Return the references that the settings name, or None.

    Raises:
        ConfigError: The file cannot be used, or there is a threshold and no embedder.
    """
    if config.references is None:
        return None
    golden, threshold = read_golden(config.references), config.references_threshold
    if threshold is not None and embedder is None:
        raise ConfigError("references_threshold", threshold, "'none' without an embedder")
    return References(
        golden,
        threshold=threshold,
        embedder=embedder,
        timeout=config.sample_timeout,
        incidents=incidents,
        holds=holds,
    )
