"""Sink that appends results to a file, one JSON object a line."""

from __future__ import annotations

import json
import math
import mmap
import os
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import asdict, fields
from pathlib import Path
from typing import Any, BinaryIO

from rag_eval_hooks.config.env_and_file import may_be_file
from rag_eval_hooks.ending import Evaluation
from rag_eval_hooks.errors import ConfigError
from rag_eval_hooks.feedback import Feedback
from rag_eval_hooks.score import NotScored, Outcome, result_id
from rag_eval_hooks.usage import Usage

try:
    import fcntl
except ImportError:  # pragma: no cover - a system without POSIX file locks
    fcntl = None  # type: ignore[assignment]

__all__ = ["JsonlSink", "from_settings", "outcome_to_dict"]

_CONTENT = ("question", "contexts", "answer", "reference")


def from_settings(path: str, key: str | None) -> JsonlSink:
    """Return the sink that `jsonl:<path>` names."""
    return JsonlSink(path)


class JsonlSink:
    """Appends a line per sample: `{"sample": {...}, "outcomes": {id: {...}}, "result_id": "..."}`.

    The file is opened for each line and may be shared by processes. A line that a killed process
    left unfinished is ended before the next one is written. With a spool, each result is there
    once.

    Args:
        path: File to append to; its folder must exist.
        content: Whether question, contexts, answer, reference and explanations are written.

    Raises:
        ConfigError: The folder does not exist or the path is a folder.
    """

    def __init__(self, path: str | Path, *, content: bool = True) -> None:
        self._path = Path(path)
        if not may_be_file(self._path):
            raise ConfigError("sinks", f"jsonl:{path}", "a file in a folder that exists")
        self._content = content

    @property
    def place(self) -> str:
        """`jsonl:` and the full path of the file."""
        return f"jsonl:{self._path.absolute()}"

    def deliver(self, evaluation: Evaluation) -> None:
        """Append one line.

        Raises:
            OSError: The file cannot be written.
        """
        sample, outcomes = evaluation.sample.to_dict(), evaluation.outcomes
        results = {name: outcome_to_dict(outcome) for name, outcome in outcomes.items()}
        if not self._content:
            sample = {key: value for key, value in sample.items() if key not in _CONTENT}
            for result in results.values():
                result.pop("explanation", None)
        # The id comes last: a line that has it is whole.
        own_id = result_id(evaluation.sample.sample_id, outcomes)
        self._write({"sample": sample, "outcomes": results, "result_id": own_id})

    def feedback(self, feedback: Feedback) -> None:
        """Append a line `{"feedback": {...}}`, which names its sample and trace.

        Raises:
            OSError: The file cannot be written.
        """
        record = asdict(feedback)
        if not self._content:
            del record["reference"]
        self._write({"feedback": {k: v for k, v in record.items() if v is not None}})

    def position(self) -> int:
        """Return the size of the file in bytes."""
        try:
            return self._path.stat().st_size
        except FileNotFoundError:
            return 0

    def holds(self, result_id: str, since: int) -> bool:
        """Return whether the line of a result is in the file.

        Args:
            result_id: Id of the result.
            since: Bytes at the beginning of the file that are skipped; none are in a file that
                has become shorter.
        """
        text = f'"result_id": "{result_id}"}}'.encode()
        try:
            with self._path.open("rb") as file:
                size = file.seek(0, os.SEEK_END)
                if not size:
                    return False
                with mmap.mmap(file.fileno(), 0, access=mmap.ACCESS_READ) as content:
                    return content.find(text, since if since <= size else 0) >= 0
        except FileNotFoundError:
            return False

    def close(self) -> None:
        """Do nothing: the file is open only while a line is written."""

    def _write(self, record: Mapping[str, Any]) -> None:
        line = json.dumps(_finite(record), ensure_ascii=False, default=str, allow_nan=False)
        # A lone surrogate, which some models emit, must not cost the line.
        data = line.encode("utf-8", errors="replace") + b"\n"
        with self._path.open("ab+", buffering=0) as file, _exclusive(file):
            size = file.seek(0, os.SEEK_END)
            if size:
                file.seek(size - 1)
                if file.read(1) != b"\n":
                    data = b"\n" + data
            left = memoryview(data)
            while left:
                left = left[file.write(left) :]


@contextmanager
def _exclusive(file: BinaryIO) -> Iterator[None]:
    """Keep other processes from writing meanwhile; the lock ends with the process."""
    if fcntl is None:
        yield
        return
    fcntl.flock(file, fcntl.LOCK_EX)
    try:
        yield
    finally:
        fcntl.flock(file, fcntl.LOCK_UN)


def outcome_to_dict(outcome: Outcome) -> dict[str, Any]:
    """Return an outcome as plain types: a score, or `not_scored` with cause and detail."""
    values = {f.name: _plain(getattr(outcome, f.name)) for f in fields(outcome)}
    if isinstance(outcome, NotScored):
        values = {"not_scored": values.pop("cause"), **values}
    return {k: v for k, v in values.items() if v not in (None, {}, (), "") and v is not False}


def _finite(value: Any) -> Any:
    """Return the value with null for numbers that JSON does not have."""
    if isinstance(value, float):
        return value if math.isfinite(value) else None
    if isinstance(value, Mapping):
        return {key: _finite(item) for key, item in value.items()}
    return [_finite(item) for item in value] if isinstance(value, list | tuple) else value


def _plain(value: Any) -> Any:
    if isinstance(value, Usage):
        return {k: v for k, v in asdict(value).items() if v}
    return dict(value) if isinstance(value, Mapping) else value
