"""Results as one JSON object a line."""

from __future__ import annotations

import json
import math
import os
from collections.abc import Mapping
from dataclasses import asdict, fields
from pathlib import Path
from typing import Any, BinaryIO

from rag_eval_hooks.delivery.locked_append import append, find
from rag_eval_hooks.errors import ConfigError
from rag_eval_hooks.feedback import Feedback
from rag_eval_hooks.file_paths import is_place
from rag_eval_hooks.ids import result_id
from rag_eval_hooks.sample import Sample
from rag_eval_hooks.score import NotScored, Outcome, Outcomes
from rag_eval_hooks.usage import Usage

__all__ = ["JsonlSink", "outcome_to_dict"]

_CONTENT = ("question", "contexts", "answer", "reference")


class JsonlSink:
    """Appends a line per sample: `{"sample": {...}, "outcomes": {id: {...}}, "result_id": "..."}`.

    The file is opened with the first line and may be shared by processes. A line that a killed
    process left unfinished is ended before the next one is written. With a spool, each result is
    there once.

    Args:
        path: File to append to; its folder must exist.
        content: Whether question, contexts, answer, reference and explanations are written.

    Raises:
        ConfigError: The folder does not exist or the path is a folder.
    """

    def __init__(self, path: str | Path, *, content: bool = True) -> None:
        self._path = Path(path)
        if not is_place(self._path):
            raise ConfigError("sinks", f"jsonl:{path}", "a file in a folder that exists")
        self._content = content
        self._file: BinaryIO | None = None
        self._process = os.getpid()

    @property
    def place(self) -> str:
        """`jsonl:` and the file's full path."""
        return f"jsonl:{self._path.absolute()}"

    def deliver(self, sample: Sample, outcomes: Outcomes) -> None:
        """Writes one line.

        Raises:
            OSError: The file cannot be written.
        """
        # The id comes last: a line that has it is whole.
        told = {
            **self._record(sample, outcomes),
            "result_id": result_id(sample.sample_id, outcomes),
        }
        self._write(told)

    def feedback(self, feedback: Feedback) -> None:
        """Writes a line `{"feedback": {...}}`, which names its sample and trace.

        Raises:
            OSError: The file cannot be written.
        """
        told = asdict(feedback)
        if not self._content:
            del told["reference"]
        self._write({"feedback": {k: v for k, v in told.items() if v is not None}})

    def _write(self, told: Mapping[str, Any]) -> None:
        record = _finite(told)
        line = json.dumps(record, ensure_ascii=False, default=str, allow_nan=False)
        if self._process != os.getpid():
            # By its parent's descriptor a forked child would share the parent's lock and place.
            self.close()
            self._process = os.getpid()
        if self._file is None:
            self._file = self._path.open("ab+", buffering=0)
        # A lone surrogate, which some models give, must not cost the line.
        append(self._file, line.encode("utf-8", errors="replace") + b"\n")

    def position(self) -> int:
        """The file's size in bytes."""
        try:
            return self._path.stat().st_size
        except FileNotFoundError:
            return 0

    def holds(self, result_id: str, since: int) -> bool:
        """Whether the line of a result is in the file.

        Args:
            result_id: The result's.
            since: Bytes at the file's beginning that need not be looked at; of a file that has
                become shorter, everything is.
        """
        return find(self._path, f'"result_id": "{result_id}"}}'.encode(), since)

    def close(self) -> None:
        """Closes the file."""
        if self._file is not None:
            self._file.close()
            self._file = None

    def _record(self, sample: Sample, outcomes: Outcomes) -> dict[str, Any]:
        described = sample.to_dict()
        results = {name: outcome_to_dict(outcome) for name, outcome in outcomes.items()}
        if not self._content:
            described = {k: v for k, v in described.items() if k not in _CONTENT}
            for result in results.values():
                result.pop("explanation", None)
        return {"sample": described, "outcomes": results}


def outcome_to_dict(outcome: Outcome) -> dict[str, Any]:
    """An outcome as plain types: a score's fields, or `not_scored` with cause and detail."""
    values = {f.name: _plain(getattr(outcome, f.name)) for f in fields(outcome)}
    if isinstance(outcome, NotScored):
        values = {"not_scored": values.pop("cause"), **values}
    return {k: v for k, v in values.items() if v not in (None, {}, (), "") and v is not False}


def _finite(value: Any) -> Any:
    """The value with null for what JSON has no number for."""
    if isinstance(value, float):
        return value if math.isfinite(value) else None
    if isinstance(value, Mapping):
        return {key: _finite(item) for key, item in value.items()}
    return [_finite(item) for item in value] if isinstance(value, list | tuple) else value


def _plain(value: Any) -> Any:
    if isinstance(value, Usage):
        return {k: v for k, v in asdict(value).items() if v}
    return dict(value) if isinstance(value, Mapping) else value
