"""Reads samples from JSON lines, CSV and Parquet files, and from Hugging Face `datasets`."""

from __future__ import annotations

import ast
import csv
import gzip
import hashlib
import json
import zlib
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import suppress
from pathlib import Path
from typing import Any, Final, NamedTuple

from rag_eval_hooks.errors import ConfigError, InputError
from rag_eval_hooks.sample import Sample

COLUMNS: Final[Mapping[str, Sequence[str]]] = {
    field: names.split()
    for field, names in {
        "question": "question user_input input query inputs.question inputs.input",
        "answer": "answer response actual_output prediction outputs.answer outputs.output",
        "contexts": "contexts retrieved_contexts retrieval_context documents source_nodes "
        "outputs.contexts outputs.documents",
        "reference": "reference ground_truth ground_truths expected_output reference_answer "
        "reference_outputs.answer reference_outputs.output",
        "reference_ids": "reference_ids reference_context_ids relevant_ids expected_ids",
        "question_id": "id question_id example_id sample_id",
    }.items()
}
"""Names in ragas, DeepEval, LangSmith and LlamaIndex. `a.b` is the key `b` in column `a`."""
ROW_KEY: Final = "dataset_row"  # metadata key: number of the row and digest of its content
MAX_LINE_CHARS: Final = 2**24  # per line or cell, to limit the memory
_LONG: Final = 300  # characters; longer texts are not metadata
_BATCH: Final = 200
CUT: Final = (EOFError, zlib.error)  # raised by `gzip` if the end of a file is missing


class DataRow(NamedTuple):
    number: int  # from 0
    sample: Sample | None = None  # None for an unreadable row
    error: str = ""  # names the column, the value and the expected value


def data_rows(path: Path, mapped: Mapping[str, str] | None = None) -> Iterator[DataRow]:
    mapped = mapped or {}
    for field in mapped:
        if field not in COLUMNS:
            raise ConfigError.unknown("map", field, COLUMNS)
    for number, values in enumerate(_read(path)):
        for field, column in mapped.items() if not number and isinstance(values, Mapping) else ():
            if values.keys().isdisjoint((column, column.partition(".")[0])):
                raise ConfigError("map", f"{field}={column}", "a column of " + ", ".join(values))
        text = json.dumps(values, sort_keys=True, default=str, ensure_ascii=False)
        digest = hashlib.blake2b(text.encode("utf-8", "replace"), digest_size=8).hexdigest()
        try:
            yield DataRow(number, _sample(values, mapped, f"{number}-{digest}"))
        except (RecursionError, TypeError, ValueError) as error:
            yield DataRow(number, error=f"row {number + 1}: {error}")


def count_rows(path: Path) -> int | None:
    if path.suffix != ".jsonl":
        return None  # because counting would be slow
    with path.open("rb") as file:
        return sum(chunk.count(b"\n") for chunk in iter(lambda: file.read(1 << 20), b""))


def _sample(values: object, mapped: Mapping[str, str], key: str) -> Sample:
    if isinstance(values, ValueError):
        raise values
    if not isinstance(values, Mapping):
        raise TypeError("A row must be a JSON object.")
    if isinstance(values.get(""), list):
        raise TypeError("The row has more cells than columns. Quote cells that contain commas.")
    cells = {**_cells(values), "": None}  # pandas writes its index as a column without a name
    names = {f: next((name for name in known if name in cells), "") for f, known in COLUMNS.items()}
    has_reference = names["reference"] or "reference" in mapped or "reference_outputs" in values
    if "outputs" in values and not has_reference:
        # In a LangSmith example, `outputs` is the reference, and the example has no answer.
        names |= {"reference": names["answer"], "answer": ""}
    names |= mapped
    found = {field: cells.get(name) for field, name in names.items()}
    if not isinstance(found["question"], str) or not found["question"].strip():
        known = ", ".join(map(str, values)) or "none"
        raise TypeError(f"No column has a question. Columns: {known}. Use --map question=...")
    used = {name.partition(".")[0] for name in names.values()}
    return Sample(
        question=found["question"],
        contexts=_contexts(found["contexts"]),
        answer=_text(found["answer"]),
        reference=_text(found["reference"]),
        reference_ids=_ids(found["reference_ids"]),
        question_id=_text(found["question_id"]) or None,
        metadata={**_metadata(values, used), ROW_KEY: key},
    )


def _cells(values: Mapping[str, Any]) -> dict[str, Any]:
    inner = {
        f"{name}.{key}": value
        for name, each in values.items()
        if isinstance(each, Mapping)
        for key, value in _cells(each).items()
    }
    # A missing value of a table is NaN, which differs from itself.
    return {**inner, **{k: v for k, v in values.items() if v is not None and v == v}}


def _text(value: Any) -> Any:
    if isinstance(value, list) and value and all(isinstance(each, str) for each in value):
        return value[0]
    return str(value) if isinstance(value, int | float) else value


def _contexts(value: Any) -> Any:
    values = _listed(value, lambda text: [text] if text.strip() else [])
    return list(map(_node, values)) if isinstance(values, list) else values


def _node(value: Any) -> Any:
    node = value.get("node") if isinstance(value, Mapping) else None
    if not isinstance(node, Mapping):
        return value
    return {"id": node.get("id_"), **node, "score": value.get("score")}


def _ids(value: Any) -> Any:
    found = _listed(value, lambda text: text.replace(",", " ").split())
    return found or None if isinstance(value, str) else found


def _listed(value: Any, other: Callable[[str], Any]) -> Any:
    if not isinstance(value, str):
        return value
    for parse in (json.loads, ast.literal_eval):
        with suppress(ValueError, SyntaxError, MemoryError, RecursionError):
            if isinstance(found := parse(value), list):
                return found
    return other(value)


def _metadata(values: Mapping[str, Any], used: set[str]) -> dict[str, Any]:
    free = {str(key): value for key, value in values.items() if key not in used}
    for inner in (values.get("labels"), values.get("metadata")):
        free |= inner if isinstance(inner, Mapping) else {}
    return {
        key: value
        for key, value in free.items()
        if isinstance(value, str | int | float) and value == value and len(str(value)) < _LONG
    }


def _read(path: Path) -> Iterator[Any]:
    kind = path.with_suffix("").suffix if path.suffix == ".gz" else path.suffix
    read = _of_folder if path.is_dir() else _READERS.get(kind.lower())
    if read is None:
        wants = "a .jsonl, .csv or .parquet file, or a folder that `Dataset.save_to_disk` wrote"
        raise ConfigError("data", str(path), wants)
    try:
        yield from read(path)
    except (OSError, ValueError, *CUT, csv.Error) as error:
        raise ConfigError("data", str(path), f"a readable file; {error}") from error


def json_lines(path: Path, errors: str = "strict") -> Iterator[tuple[int, Any]]:
    """Yield each line's number and value. The value of an invalid line is a `ValueError`.

    Raise `InputError` if a line is too long.
    """
    for number, line in enumerate(_lines(path, errors), start=1):
        if line.strip():
            try:
                yield number, json.loads(line)
            except (ValueError, RecursionError) as error:
                why = getattr(error, "msg", type(error).__name__)
                yield number, ValueError(f"line {number} is not valid JSON: {why}")


def _lines(path: Path, errors: str = "strict") -> Iterator[str]:
    opened = gzip.open if path.suffix == ".gz" else open
    with opened(path, "rt", encoding="utf-8-sig", errors=errors, newline="") as file:
        for number, line in enumerate(iter(lambda: file.readline(MAX_LINE_CHARS + 1), ""), 1):
            if len(line) > MAX_LINE_CHARS:
                told = f"{path}: line {number} has more than {MAX_LINE_CHARS:,} characters."
                raise InputError(told)
            yield line


def _of_csv(path: Path) -> Iterator[dict[str, str]]:
    reader = csv.DictReader(_lines(path), restkey="")
    # The limit applies to the whole process.
    limit = csv.field_size_limit(MAX_LINE_CHARS)
    try:
        yield from reader
    finally:
        csv.field_size_limit(limit)


def parquet_rows(path: Path) -> Iterator[Any]:
    import pyarrow.parquet as pq

    with pq.ParquetFile(path) as table:
        for batch in table.iter_batches(batch_size=_BATCH):
            yield from batch.to_pylist()


def _of_folder(path: Path) -> Iterator[Any]:
    files = sorted(path.rglob("*.arrow"))
    if not files:
        raise ValueError("the folder has no .arrow file; write it with `Dataset.save_to_disk`")
    import pyarrow as pa

    for file in files:
        with pa.memory_map(str(file)) as source, pa.ipc.open_stream(source) as stream:
            for batch in stream:
                yield from batch.to_pylist()


_READERS: Final[Mapping[str, Callable[[Path], Iterator[Any]]]] = {
    ".jsonl": lambda path: (value for _, value in json_lines(path)),
    ".csv": _of_csv,
    ".parquet": parquet_rows,
}
