"""A sink that appends results to a JSON lines file."""

from __future__ import annotations

import glob
import json
import os
import stat
from collections.abc import Mapping
from contextlib import suppress
from dataclasses import asdict
from datetime import UTC, datetime
from pathlib import Path
from typing import Any, Final

from rag_eval_hooks._version import __version__
from rag_eval_hooks.config.sources import may_be_file
from rag_eval_hooks.errors import ConfigError
from rag_eval_hooks.feedback import Feedback
from rag_eval_hooks.result import Evaluation
from rag_eval_hooks.sample import Sample
from rag_eval_hooks.score import outcome_from_dict, outcome_to_dict, result_id

try:
    import fcntl
except ImportError:  # pragma: no cover - a system without POSIX file locks
    fcntl = None  # type: ignore[assignment]

SCHEMA: Final = 1  # version of the file format
_CONTENT: Final = ("question", "contexts", "answer", "reference")


class JsonlSink:
    """Appends one JSON line per evaluation to a file. `rag_eval_hooks.results.read` reads the file.

    Several processes may append to the same file. Each write sets the file's mode to 0600. After a
    crash, a process with a spool may write a result again, with the same `result_id`. `read`
    returns such a result once. If writing fails, `deliver` and `feedback` raise `OSError`.

    To start a new file, the sink renames the old file to `<name>.<UTC time>`. The sink never
    deletes a file.

    Args:
        path: File to append to. The parent folder must exist. A relative path refers to the
            working directory at start-up.
        content: Whether to write question, contexts, answer, reference and explanations.
        max_bytes: Maximum size of a file, at least 1, or None for no limit. A line
            longer than this limit gets a separate file.
        daily: Whether to start a new file on each day (UTC).

    Raises:
        ConfigError: The folder does not exist, the path is a folder, or `max_bytes` is below 1.
    """

    def __init__(
        self,
        path: str | Path,
        *,
        content: bool = True,
        max_bytes: int | None = None,
        daily: bool = False,
    ) -> None:
        self._path = Path(path).absolute()
        if not may_be_file(self._path):
            raise ConfigError("sinks", f"jsonl:{path}", "a file in an existing folder")
        if max_bytes is not None and max_bytes < 1:
            raise ConfigError("max_bytes", max_bytes, "a number of bytes of at least 1, or None")
        self._content = content
        self._max_bytes = max_bytes
        self._daily = daily

    @property
    def place(self) -> str:
        return f"jsonl:{self._path}"

    def deliver(self, evaluation: Evaluation) -> None:
        self._write(result_line(evaluation, content=self._content))

    def feedback(self, feedback: Feedback) -> None:
        """Append a line `{"schema": 1, "feedback": {...}}` to the file."""
        known = {key: value for key, value in asdict(feedback).items() if value is not None}
        if not self._content:
            known.pop("reference", None)
        self._write({"schema": SCHEMA, "feedback": known})

    def close(self) -> None:
        pass

    def _write(self, record: Mapping[str, Any]) -> None:
        # Some models emit lone surrogates, which UTF-8 cannot encode.
        data = _json(record).encode("utf-8", errors="replace") + b"\n"
        while not self._append(data):
            pass  # This process or another process renamed the file.

    def _append(self, data: bytes) -> bool:
        with open(self._path, "ab+", buffering=0, opener=open_private) as file:
            if fcntl is not None:
                fcntl.flock(file, fcntl.LOCK_EX)
            try:
                state = os.fstat(file.fileno())
                if not self._is_at_path(state):
                    return False
                if state.st_size and self._is_over(state, len(data)):
                    self._path.rename(f"{self._path}.{datetime.now(UTC):%Y%m%dT%H%M%S%f}")
                    return False
                if size := file.seek(0, os.SEEK_END):
                    file.seek(size - 1)
                    if file.read(1) != b"\n":
                        # A killed process left an incomplete line, so start a new line.
                        data = b"\n" + data
                while data:
                    data = data[file.write(data) :]
            finally:
                if fcntl is not None:
                    # Unlock explicitly, because a forked child may keep the file open.
                    fcntl.flock(file, fcntl.LOCK_UN)
        return True

    def _is_at_path(self, state: os.stat_result) -> bool:
        with suppress(FileNotFoundError):
            return os.path.samestat(state, self._path.stat())
        return False

    def _is_over(self, state: os.stat_result, length: int) -> bool:
        if self._max_bytes is not None and state.st_size + length > self._max_bytes:
            return True
        written = datetime.fromtimestamp(state.st_mtime, UTC)
        return self._daily and written.date() < datetime.now(UTC).date()


def result_line(evaluation: Evaluation, *, content: bool = True) -> dict[str, Any]:
    sample = evaluation.sample.to_dict()
    sample.pop("ended_at", None)
    results = {name: outcome_to_dict(one) for name, one in evaluation.outcomes.items()}
    if not content:
        sample = {key: value for key, value in sample.items() if key not in _CONTENT}
        for result in results.values():
            result.pop("explanation", None)
    decision = {"probability": evaluation.probability, "reason": evaluation.reason or None}
    optional = {
        "decision": {key: value for key, value in decision.items() if value is not None},
        "passed": evaluation.passed,
        "verdicts": dict(evaluation.verdicts),
    }
    return {
        "schema": SCHEMA,
        "time": _iso(evaluation.time),
        "evaluated": _iso(evaluation.evaluated),
        "package": __version__,
        "sample": sample,
        **{key: value for key, value in optional.items() if value not in (None, {})},
        "outcomes": results,
        # The last key marks a complete line.
        "result_id": result_id(evaluation.sample.sample_id, evaluation.outcomes),
    }


def row_of(line: Mapping[str, Any]) -> Evaluation:
    # A sink without content omits the question.
    sample = {"question": "", **line["sample"]}
    if line.get("time") is not None:
        sample["ended_at"] = _nanoseconds(line["time"], sample.get("latency") or 0.0)
    decision, evaluated = line.get("decision") or {}, line.get("evaluated")
    end = 0 if evaluated is None else _nanoseconds(evaluated)
    return Evaluation(
        sample=Sample.from_dict(sample),
        outcomes={name: outcome_from_dict(one) for name, one in line["outcomes"].items()},
        probability=decision.get("probability"),
        reason=decision.get("reason", ""),
        start=end,
        end=end,
        passed=line.get("passed"),
        verdicts=line.get("verdicts") or {},
    )


def _nanoseconds(time: str, later: float = 0.0) -> int:
    return round((datetime.fromisoformat(time).astimezone(UTC).timestamp() + later) * 1e9)


def rotated_files(path: Path) -> list[Path]:
    """Return the older parts of a file, such as `<name>.1.gz` and `<name>-<day>`, oldest first."""
    found = path.parent.glob(f"{glob.escape(path.name)}[.-][0-9]*")
    return sorted(found, key=lambda file: (file.stat().st_mtime, file.name))


def open_private(path: str, flags: int) -> int:
    """Open a file, and set its mode to 0600 if other users can access the file.

    Raise `PermissionError` if the mode cannot be set, because another user owns the file.
    """
    descriptor = os.open(path, flags, 0o600)
    state = os.fstat(descriptor)
    if os.name == "posix" and stat.S_ISREG(state.st_mode) and state.st_mode & 0o077:
        try:
            os.fchmod(descriptor, 0o600)
        except OSError:
            os.close(descriptor)
            raise
    return descriptor


def _iso(time: datetime | None) -> str | None:
    return None if time is None else time.isoformat(timespec="microseconds")


def _json(record: Mapping[str, Any]) -> str:
    try:
        return json.dumps(record, ensure_ascii=False, default=_plain, allow_nan=False)
    except ValueError:
        # JSON has no infinity and no NaN, so write null.
        plain = json.loads(json.dumps(record, default=_plain), parse_constant=lambda _: None)
        return json.dumps(plain, ensure_ascii=False)


def _plain(value: Any) -> Any:
    return dict(value) if isinstance(value, Mapping) else str(value)
