"""Reader of results: typed rows from files, rotated and compressed ones, spools and data frames."""

from __future__ import annotations

import gzip
import json
import os
import zlib
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from datetime import UTC, datetime
from pathlib import Path
from typing import IO, TYPE_CHECKING, Any, Final, TypeAlias

from rag_eval_hooks.delivery.codec import from_text
from rag_eval_hooks.delivery.jsonl import SCHEMA, rotated_files
from rag_eval_hooks.delivery.outbox_file import NAME
from rag_eval_hooks.delivery.outbox_reader import read_results
from rag_eval_hooks.sample import Sample
from rag_eval_hooks.score import Outcomes, Score, outcome_from_dict, outcome_to_dict, result_id

if TYPE_CHECKING:
    import pandas as pd

__all__ = ["ResultRow", "Results", "read", "row_of", "to_frame"]

Source: TypeAlias = "str | os.PathLike[str] | pd.DataFrame"
_PARSED: Final = ("sample", "decision", "outcomes", "verdicts")
"""Columns of a table that hold JSON."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ResultRow:
    """One evaluated sample."""

    sample: Sample
    outcomes: Outcomes
    time: datetime | None = None  # begin of the request in UTC
    evaluated: datetime | None = None  # end of its evaluation in UTC
    probability: float | None = None  # inclusion probability; None where no draw chose it
    reason: str = ""  # why it was chosen
    passed: bool | None = None  # by the thresholds of that time
    verdicts: Mapping[str, bool] = field(default_factory=dict)  # of each metric with a threshold
    result_id: str = ""  # equal for equal samples, judges and versions

    def score(self, metric: str) -> Score | None:
        """Return the score of a metric, or None if there is none."""
        outcome = self.outcomes.get(metric)
        return outcome if isinstance(outcome, Score) else None

    @property
    def when(self) -> datetime | None:
        """Time of the request, else that of its evaluation."""
        return self.time or self.evaluated


def row_of(line: Mapping[str, Any]) -> ResultRow:
    """Return the row of one line of a results file.

    Raises:
        ValueError: A value is out of range.
        TypeError: A field is missing or has the wrong type.
        KeyError: `sample` or `outcomes` is missing.
        AttributeError: A part is no object.
    """
    time, evaluated = (_time(line.get(name)) for name in ("time", "evaluated"))
    # A sink without content leaves the question out.
    plain = {"question": "", **line["sample"]}
    if time is not None:
        plain["ended_at"] = round((time.timestamp() + (plain.get("latency") or 0.0)) * 1e9)
    decision = line.get("decision") or {}
    return ResultRow(
        sample=Sample.from_dict(plain),
        outcomes={name: outcome_from_dict(one) for name, one in line["outcomes"].items()},
        time=time,
        evaluated=evaluated,
        probability=decision.get("probability"),
        reason=decision.get("reason", ""),
        passed=line.get("passed"),
        verdicts=line.get("verdicts") or {},
        result_id=line.get("result_id") or "",
    )


def read(*sources: Source | Iterable[Source]) -> Results:
    """Return the rows of results, without reading them yet.

    Args:
        *sources: Files of JSON lines, plain or compressed by gzip; Parquet files; data frames as
            `to_frame` makes them; spools; folders of files. A file that was rotated is read with
            those that it was rotated into.

    Raises:
        FileNotFoundError: Nothing is at a path.
    """
    flat: list[Any] = []
    for source in sources:
        flat += source if isinstance(source, list | tuple | set | frozenset) else [source]
    return Results([place for source in flat for place in _places(source)])


class Results:
    """Rows of results, read anew by each iteration, so that they need not fit in memory.

    Attributes:
        skipped: Lines of the last iteration that are no rows, by reason: `cut` (a process died
            while it wrote), `unreadable`, `newer` (a later version wrote it), `repeated` (the same
            result again) and `feedback`.
    """

    def __init__(self, places: Iterable[Any]) -> None:
        self._places = tuple(places)
        self.skipped: Counter[str] = Counter()

    def __iter__(self) -> Iterator[ResultRow]:
        """Yield the rows in the order of the sources."""
        self.skipped = Counter()
        known: set[int] = set()
        for place in self._places:
            for row in _rows_of(place, self.skipped):
                # Eight bytes an id: a million of them are no burden.
                key = hash(row.result_id)
                if row.result_id and key in known:
                    self.skipped["repeated"] += 1
                    continue
                known.add(key)
                yield row


def _places(source: Any) -> list[Any]:
    """Return the files and frames behind a source, the oldest first."""
    if not isinstance(source, str | os.PathLike):
        return [source]
    path = Path(source).absolute()
    if (path / NAME).exists():
        return [path / NAME]
    if path.is_dir():
        names = (".jsonl", ".jsonl.gz", ".ndjson", ".parquet")
        return sorted(each for each in path.iterdir() if each.name.endswith(names))
    rotated = rotated_files(path)
    if not path.exists() and not rotated:
        raise FileNotFoundError(f"{path}: no such file, folder or spool")
    return [*rotated, *([path] if path.exists() else [])]


def _rows_of(place: Any, skipped: Counter[str]) -> Iterator[ResultRow]:
    parse: Callable[[Any], ResultRow] = row_of
    lines: Iterator[Any]
    if not isinstance(place, Path):
        lines = _of_frame(place)
    elif place.suffix == ".parquet":
        lines = _of_parquet(place, skipped)
    elif place.name == NAME:
        lines, parse = read_results(place), _row_of_spool
    else:
        lines = _of_lines(place, skipped)
    for line in lines:
        try:
            yield parse(line)
        except (ArithmeticError, AttributeError, KeyError, TypeError, ValueError):
            skipped["unreadable"] += 1


def _of_lines(path: Path, skipped: Counter[str]) -> Iterator[Mapping[str, Any]]:
    with _opened(path) as file:
        for text in _until_cut(file, skipped):
            if not text.strip():
                continue
            try:
                line = json.loads(text)
            except ValueError:
                skipped["cut"] += 1
                continue
            except RecursionError:
                line = None
            if not isinstance(line, dict) or not isinstance(line.get("schema", 0), int):
                skipped["unreadable"] += 1
            elif line.get("schema", 0) > SCHEMA:
                skipped["newer"] += 1
            elif "feedback" in line:
                skipped["feedback"] += 1
            else:
                yield line


def _opened(path: Path) -> IO[bytes]:
    with path.open("rb") as file:
        is_compressed = file.read(2) == b"\x1f\x8b"
    return gzip.open(path) if is_compressed else path.open("rb")  # type: ignore[return-value]


def _until_cut(file: IO[bytes], skipped: Counter[str]) -> Iterator[bytes]:
    """Yield the lines of a file, up to where a compressed one ends too early."""
    try:
        yield from file
    except (EOFError, gzip.BadGzipFile, zlib.error):
        skipped["cut"] += 1


def _of_frame(frame: pd.DataFrame) -> Iterator[Mapping[str, Any]]:
    missing = [name for name in ("sample", "outcomes") if name not in frame.columns]
    if missing:
        raise TypeError(f"data frame: no column {missing[0]!r}; wants one of `results.to_frame`")
    for values in frame.to_dict("records"):
        yield {str(name): _parsed(str(name), value) for name, value in values.items()}


def _of_parquet(path: Path, skipped: Counter[str]) -> Iterator[Mapping[str, Any]]:
    import pyarrow as pa
    import pyarrow.parquet as pq

    try:
        file = pq.ParquetFile(path)
    except pa.ArrowInvalid:
        skipped["unreadable"] += 1
        return
    with file:
        for batch in file.iter_batches(batch_size=500):
            yield from _of_frame(batch.to_pandas())


def _parsed(name: str, value: Any) -> Any:
    if name in _PARSED and isinstance(value, str):
        return json.loads(value)
    # Missing values of a frame are NaN, which differs from itself.
    return None if value is None or value != value else value


def _row_of_spool(text: str) -> ResultRow:
    stored = from_text(text)
    return ResultRow(
        sample=stored.sample,
        outcomes=stored.outcomes,
        time=_begin(stored.sample),
        evaluated=datetime.fromtimestamp(stored.end / 1e9, UTC),
        probability=stored.probability,
        reason=stored.reason,
        result_id=result_id(stored.sample.sample_id, stored.outcomes),
    )


def _begin(sample: Sample) -> datetime | None:
    if sample.ended_at is None:
        return None
    return datetime.fromtimestamp(sample.ended_at / 1e9 - (sample.latency or 0.0), UTC)


def _time(text: str | None) -> datetime | None:
    return None if text is None else datetime.fromisoformat(text).astimezone(UTC)


def to_frame(rows: Iterable[ResultRow]) -> pd.DataFrame:
    """Return results as a data frame; `frame.to_parquet(path)` writes a file that `read` reads.

    Columns: `time`, `evaluated`, `question`, `answer`, `reference`, each key of the metadata, each
    metric with its value in the metric's scale (no value where it is not scored), and `sample`,
    `outcomes`, `decision`, `verdicts` as JSON, from which nothing is lost.

    Raises:
        ImportError: pandas is not installed.
    """
    import pandas as pd

    return pd.DataFrame([_columns(row) for row in rows])


def _columns(row: ResultRow) -> dict[str, Any]:
    sample = row.sample
    plain = sample.to_dict()
    plain.pop("ended_at", None)
    decision = {"probability": row.probability, "reason": row.reason}
    own = {
        "time": row.time and row.time.isoformat(),
        "evaluated": row.evaluated and row.evaluated.isoformat(),
        "question": sample.question,
        "answer": sample.answer,
        "reference": sample.reference,
        "passed": row.passed,
        "result_id": row.result_id,
        "sample": json.dumps(plain, ensure_ascii=False, default=str),
        "decision": json.dumps({k: v for k, v in decision.items() if v not in (None, "")}),
        "verdicts": json.dumps(dict(row.verdicts)),
        "outcomes": json.dumps({k: outcome_to_dict(one) for k, one in row.outcomes.items()}),
    }
    values = {k: one.value for k, one in row.outcomes.items() if isinstance(one, Score)}
    free = {k: v for k, v in sample.metadata.items() if isinstance(v, str | int | float | bool)}
    return {**free, **values, **own}
