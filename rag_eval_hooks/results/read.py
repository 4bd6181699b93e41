"""Reads results and labels from JSON lines, Parquet files, spools and data frames."""

from __future__ import annotations

import gzip
import json
import os
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import replace
from itertools import chain
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final, TypeAlias, TypeVar

from rag_eval_hooks.datasets.data_rows import CUT, json_lines, parquet_rows
from rag_eval_hooks.delivery.jsonl import SCHEMA, result_line, rotated_files, row_of
from rag_eval_hooks.delivery.outbox_file import NAME, read_results
from rag_eval_hooks.errors import ConfigError, wrong_type
from rag_eval_hooks.result import Evaluation
from rag_eval_hooks.results.summary import Labels, identity_of, scale_of_metric
from rag_eval_hooks.score import result_id

if TYPE_CHECKING:
    import pandas as pd

T = TypeVar("T")
Source: TypeAlias = "str | os.PathLike[str] | pd.DataFrame"
_SUFFIXES: Final = (".jsonl", ".jsonl.gz", ".parquet")
_LINE: Final = "result"
_DEFAULT: Final = "ragas.faithfulness"
_WANTS: Final = (
    'a label {"sample_id": "...", "metric": "ragas.faithfulness", "value": 0.5}, a label '
    '{"sample_id": "...", "supported": true}, or a line of results'
)
NO_ROW: Final = (ArithmeticError, AttributeError, KeyError, TypeError, ValueError)


def without_texts(row: Evaluation) -> Evaluation:
    outcomes = {name: replace(one, explanation={}) for name, one in row.outcomes.items()}
    sample = replace(row.sample, contexts=None)
    return replace(row, sample=sample, outcomes=outcomes, log=())


def read(*sources: Source | Iterable[Source]) -> Results:
    """Return an iterable that reads evaluations lazily from files, spools or data frames.

    Sources are files of JSON lines (plain or gzip), Parquet files, spools, folders of files, and
    data frames from `to_frame`. If a file was rotated, `read` also reads the earlier parts.
    """
    flat: list[Any] = []
    for source in sources:
        flat += source if isinstance(source, list | tuple | set | frozenset) else [source]
    return Results([place for source in flat for place in _places(source)])


class Results:
    """An iterable of evaluations. Each iteration reads the files again, to save memory.

    Attributes:
        skipped: Number of lines that the last iteration skipped, by reason. `cut`: a process died
            while writing the line. `unreadable`: the line is not a result. `newer`: a newer version
            wrote the line. `repeated`: an earlier line has the same result. `feedback`: the line
            records feedback.
    """

    def __init__(self, places: Iterable[Any]) -> None:
        self._places = tuple(places)
        self.skipped: Counter[str] = Counter()

    def __iter__(self) -> Iterator[Evaluation]:
        self.skipped = Counter()
        known: set[int] = set()
        for line in chain.from_iterable(map(_lines, self._places)):
            row = _row_or_flaw(line)
            if isinstance(row, Evaluation):
                # A hash needs less memory than the id, so a million rows fit in memory.
                if (key := hash(result_id(row.sample.sample_id, row.outcomes))) not in known:
                    known.add(key)
                    yield row
                    continue
                row = "repeated"
            self.skipped[row] += 1


def _places(source: Any) -> list[Any]:
    if not isinstance(source, str | os.PathLike):
        if _LINE not in getattr(source, "columns", ()):
            raise wrong_type("a source", "a path, or a data frame from `to_frame`", source)
        return [source]
    path = Path(source).absolute()
    if (path / NAME).exists():
        return [path / NAME]
    if path.is_dir():
        return sorted(each for each in path.iterdir() if each.name.endswith(_SUFFIXES))
    files = [*rotated_files(path), *([path] if path.exists() else [])]
    if not files:
        raise FileNotFoundError(f"There is no file, folder or spool {path}.")
    return files


def _lines(place: Any) -> Iterator[Any]:
    # Yields, and does not raise, the `ValueError` of an incomplete line.
    if not isinstance(place, Path):
        yield from map(json.loads, place[_LINE])
    elif place.name == NAME:
        yield from read_results(place)
    elif place.suffix == ".parquet":
        try:
            yield from (json.loads(row.get(_LINE) or "") for row in parquet_rows(place))
        except ValueError:
            yield None
    else:
        try:
            yield from (line for _, line in json_lines(place, "replace"))
        except (ValueError, gzip.BadGzipFile, *CUT) as error:
            yield ValueError(error)


def _row_or_flaw(line: Any) -> Evaluation | str:
    if isinstance(line, ValueError):
        return "cut"
    try:
        if isinstance(line, str):
            line = json.loads(line)
        if line.get("schema", 0) > SCHEMA:
            return "newer"
        return "feedback" if "feedback" in line else row_of(line)
    except NO_ROW:
        return "unreadable"


def to_frame(rows: Iterable[Evaluation]) -> pd.DataFrame:
    """Convert results to a data frame. `frame.to_parquet(path)` writes a file that `read` accepts.

    The column `result` holds the entire result as JSON. Each metric has a column with values on the
    metric's scale. Further columns are metadata keys, times, question, answer, reference and
    `passed`.
    """
    import pandas as pd

    return pd.DataFrame([_columns(row) for row in rows])


def _columns(row: Evaluation) -> dict[str, Any]:
    line, metadata = result_line(row), row.sample.metadata.items()
    return {
        **{key: value for key, value in metadata if isinstance(value, str | int | float | bool)},
        **{name: score.value for name, score in row.scores.items()},
        **{name: line.get(name) for name in ("time", "evaluated", "passed")},
        **{name: getattr(row.sample, name) for name in ("question", "answer", "reference")},
        _LINE: json.dumps(line, default=str),
    }


def read_labels(path: Path) -> Labels:
    """Read labels from a file of JSON lines.

    A line has a sample's id, a metric and a value on the metric's scale. A line may also be a
    result, for example from a better judge. A result matches a sample by `sample_id`, `question_id`
    or question. `read_labels` skips lines with the key `claim`, which label only one claim. A line
    that is neither a label nor a result raises `ConfigError`.
    """
    labels: dict[tuple[str, str], float] = {}
    for found in lines_of(path, _labels_of, _WANTS):
        labels |= found
    return labels


def lines_of(path: Path, read: Callable[[Mapping[str, Any]], T], wants: str) -> Iterator[T]:
    for number, line in json_lines(Path(path), "replace"):
        try:
            yield read(line)
        except NO_ROW:
            raise ConfigError(f"labels: line {number}", str(line)[:60], wants) from None


def _labels_of(line: Mapping[str, Any]) -> dict[tuple[str, str], float]:
    if "outcomes" in line:
        row = row_of(line)
        names = (row.sample.sample_id, identity_of(row))
        return {(name, k): score.normalized for name in names for k, score in row.scores.items()}
    if "claim" in line:
        return {}
    metric, value = line.get("metric", _DEFAULT), line.get("supported")
    if not isinstance(value, bool):
        scale = scale_of_metric(metric)
        value = line["value"] if scale is None else scale.score(line["value"]).normalized
    if not 0.0 <= value <= 1.0:
        raise ValueError
    return {(line["sample_id"], metric): float(value)}
