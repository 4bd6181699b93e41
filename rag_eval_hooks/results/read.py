"""Reader of results: typed rows from files, rotated and compressed ones, spools and data frames."""

from __future__ import annotations

import gzip
import json
import os
import zlib
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field, replace
from datetime import UTC, datetime
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final, TypeAlias

from rag_eval_hooks.delivery.jsonl import SCHEMA, rotated_files
from rag_eval_hooks.delivery.outbox_file import NAME, read_results
from rag_eval_hooks.sample import Sample
from rag_eval_hooks.score import Outcomes, Score, outcome_from_dict, outcome_to_dict, result_id

if TYPE_CHECKING:
    import pandas as pd


Source: TypeAlias = "str | os.PathLike[str] | pd.DataFrame"
_SUFFIXES: Final = (".jsonl", ".jsonl.gz", ".ndjson", ".parquet")
_LINE: Final = "result"
"""Column of a data frame that holds the whole result as JSON."""
NO_ROW: Final = (ArithmeticError, AttributeError, KeyError, TypeError, ValueError)


@dataclass(frozen=True, slots=True, kw_only=True)
class ResultRow:
    """One evaluated sample."""

    sample: Sample
    outcomes: Outcomes
    time: datetime | None = None  # start of the request in UTC
    evaluated: datetime | None = None  # end of its evaluation in UTC
    probability: float | None = None  # inclusion probability; None where no draw chose it
    reason: str = ""  # why it was chosen
    passed: bool | None = None  # by the thresholds of that time
    verdicts: Mapping[str, bool] = field(default_factory=dict)  # of each metric with a threshold
    result_id: str = ""  # equal for equal samples, judges and versions

    def score(self, metric: str) -> Score | None:
        """Return the score of a metric, or None without a score."""
        outcome = self.outcomes.get(metric)
        return outcome if isinstance(outcome, Score) else None

    @property
    def scores(self) -> dict[str, Score]:
        """The outcomes that are scores."""
        return {name: one for name, one in self.outcomes.items() if isinstance(one, Score)}

    @property
    def when(self) -> datetime | None:
        """Time of the request, else that of its evaluation."""
        return self.time or self.evaluated

    def without_texts(self) -> ResultRow:
        """Return the row without its largest parts, contexts and explanations."""
        outcomes = {name: replace(one, explanation={}) for name, one in self.outcomes.items()}
        return replace(self, sample=replace(self.sample, contexts=None), outcomes=outcomes)


def row_of(line: Mapping[str, Any]) -> ResultRow:
    """Return the row of one line of a results file; raises one of `NO_ROW` for any other object."""
    # A sink without content leaves the question out.
    plain = {"question": "", **line["sample"]}
    time, latency = _utc(line.get("time")), plain.get("latency") or 0.0
    if time is not None:
        plain["ended_at"] = round((time.timestamp() + latency) * 1e9)
    elif (ended := plain.get("ended_at")) is not None:
        time = datetime.fromtimestamp(ended / 1e9 - latency, UTC)
    sample, decision = Sample.from_dict(plain), line.get("decision") or {}
    outcomes = {name: outcome_from_dict(one) for name, one in line["outcomes"].items()}
    return ResultRow(
        sample=sample,
        outcomes=outcomes,
        time=time,
        evaluated=_utc(line.get("evaluated")),
        probability=decision.get("probability"),
        reason=decision.get("reason", ""),
        passed=line.get("passed"),
        verdicts=line.get("verdicts") or {},
        result_id=line.get("result_id") or result_id(sample.sample_id, outcomes),
    )


def _utc(text: str | None) -> datetime | None:
    return None if text is None else datetime.fromisoformat(text).astimezone(UTC)


def read(*sources: Source | Iterable[Source]) -> Results:
    """Return the rows of results, without reading them yet.

    Args:
        *sources: Files of JSON lines, plain or compressed by gzip; Parquet files; data frames that
            `to_frame` made; spools; folders of files. A rotated file includes its earlier parts.

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
        skipped: Lines of the last iteration that are not rows, by reason: `cut` (a process died
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
            for line in _lines_of(place, self.skipped):
                try:
                    row = row_of(line)
                except NO_ROW:
                    self.skipped["unreadable"] += 1
                    continue
                # A hash instead of the id keeps a million rows within memory.
                if (key := hash(row.result_id)) in known:
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
        return sorted(each for each in path.iterdir() if each.name.endswith(_SUFFIXES))
    files = [*rotated_files(path), *([path] if path.exists() else [])]
    if not files:
        raise FileNotFoundError(f"{path}: no such file, folder or spool")
    return files


def _lines_of(place: Any, skipped: Counter[str]) -> Iterator[Mapping[str, Any]]:
    if not isinstance(place, Path):
        yield from _of_frame(place)
    elif place.suffix == ".parquet":
        yield from _of_parquet(place, skipped)
    elif place.name == NAME:
        yield from map(_of_job, read_results(place))
    else:
        yield from _of_text(place, skipped)


def _of_text(path: Path, skipped: Counter[str]) -> Iterator[Mapping[str, Any]]:
    with path.open("rb") as file:
        is_compressed = file.read(2) == b"\x1f\x8b"
    with gzip.open(path) if is_compressed else path.open("rb") as lines:
        try:
            for text in lines:
                line = _parsed(text)
                if isinstance(line, str):
                    skipped[line] += 1
                elif line is not None:
                    yield line
        except (EOFError, gzip.BadGzipFile, zlib.error):
            skipped["cut"] += 1


def _parsed(text: bytes) -> Mapping[str, Any] | str | None:
    """Return a line, or the reason why it is not a result; None for an empty one."""
    if not text.strip():
        return None
    try:
        line = json.loads(text)
    except ValueError:
        return "cut"
    except RecursionError:
        return "unreadable"
    if not isinstance(line, dict) or not isinstance(line.get("schema", 0), int):
        return "unreadable"
    if line.get("schema", 0) > SCHEMA:
        return "newer"
    return "feedback" if "feedback" in line else line


def _of_job(text: str) -> Mapping[str, Any]:
    """Return the line of a result that waits in a spool."""
    job = json.loads(text)
    end = datetime.fromtimestamp(job["end"] / 1e9, UTC)
    return {**job, "decision": job, "evaluated": end.isoformat()}


def _of_frame(frame: pd.DataFrame) -> Iterator[Mapping[str, Any]]:
    if _LINE not in frame.columns:
        raise TypeError(f"The data frame has no column {_LINE!r}. Make it by `to_frame`.")
    yield from map(json.loads, frame[_LINE])


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


def to_frame(rows: Iterable[ResultRow]) -> pd.DataFrame:
    """Return results as a data frame; `frame.to_parquet(path)` writes a file that `read` reads.

    Columns: each key of the metadata, each metric with its value in the metric's scale (no value
    where it is not scored), `time`, `evaluated`, `question`, `answer`, `reference`, `passed`, and
    `result`, the whole result as JSON.

    Raises:
        ImportError: pandas is not installed.
    """
    import pandas as pd

    return pd.DataFrame([_columns(row) for row in rows])


def _columns(row: ResultRow) -> dict[str, Any]:
    sample, line = row.sample, _line(row)
    free = {k: v for k, v in sample.metadata.items() if isinstance(v, str | int | float | bool)}
    return {
        **free,
        **{name: score.value for name, score in row.scores.items()},
        **{name: line[name] for name in ("time", "evaluated", "passed")},
        **{name: getattr(sample, name) for name in ("question", "answer", "reference")},
        _LINE: json.dumps(line, default=str),
    }


def _line(row: ResultRow) -> dict[str, Any]:
    return {
        "result_id": row.result_id,
        "time": row.time and row.time.isoformat(),
        "evaluated": row.evaluated and row.evaluated.isoformat(),
        "sample": row.sample.to_dict(),
        "decision": {"probability": row.probability, "reason": row.reason},
        "outcomes": {name: outcome_to_dict(one) for name, one in row.outcomes.items()},
        "passed": row.passed,
        "verdicts": dict(row.verdicts),
    }
