"""Adds references to live samples whose questions are in a golden data set."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import replace
from pathlib import Path
from typing import Final

from rag_eval_hooks.datasets.data_rows import DataRow, data_rows
from rag_eval_hooks.errors import ConfigError
from rag_eval_hooks.incidents import Incidents
from rag_eval_hooks.sample import Sample
from rag_eval_hooks.text.folding import squash

MATCH: Final = "reference_match"  # metadata key of samples whose reference was looked up


class References:
    def __init__(self, golden: Iterable[Sample]) -> None:
        self._is_asked = self._is_matched = False
        # `reversed` keeps the first reference of a question.
        self._by_question = {squash(one.question): one for one in reversed(list(golden))}

    def completed(self, sample: Sample) -> Sample:
        golden = self._by_question.get(squash(sample.question))
        self._is_asked = True
        self._is_matched |= golden is not None
        if sample.reference is not None or golden is None:
            return sample
        return replace(
            sample,
            reference=golden.reference,
            reference_ids=sample.reference_ids or golden.reference_ids,
            question_id=sample.question_id or golden.question_id,
            metadata={**sample.metadata, MATCH: "exact"},
        )

    def report_unmatched(self, path: str | None, incidents: Incidents) -> None:
        if self._is_asked and not self._is_matched:
            self._is_matched = True
            advice = "a request's question must equal a golden question, except for case and spaces"
            told = f"references: no request so far asked a question that {path} contains"
            incidents.count(told, detail=advice)


def read_golden(path: str) -> tuple[Sample, ...]:
    try:
        golden = tuple(_golden(row, path) for row in data_rows(Path(path)))
    except ConfigError as error:
        raise ConfigError("references", path, error.wants) from None
    if not golden:
        raise ConfigError("references", path, "a file with at least one question")
    return golden


def _golden(row: DataRow, path: str) -> Sample:
    if (sample := row.sample) is None:
        raise ConfigError("references", path, f"rows with a question and a reference; {row.error}")
    # In a row with a reference, `answer` is a pipeline's answer.
    reference = sample.reference or sample.answer or ""
    if not reference.strip():
        wants = f"rows with a reference. Row {row.number + 1} has no reference"
        raise ConfigError("references", path, wants)
    # The samples stay in memory, so drop the texts that no request needs.
    return replace(sample, reference=reference, contexts=None, answer=None, metadata={})
