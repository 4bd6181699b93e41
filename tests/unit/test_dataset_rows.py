"""Rows of data sets of other tools as samples."""

from __future__ import annotations

import csv
import gzip
import json
import tempfile
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from rag_eval_hooks import ConfigError
from rag_eval_hooks.datasets.data_rows import count_rows, data_rows
from rag_eval_hooks.errors import InputError
from rag_eval_hooks.results import read_labels

CHUNKS = ["The first ferry leaves at 06:40.", "狗可以免费乘船"]
Q, A, R = "When does it leave, «now»?", "At 06:40.", "06:40"

ROWS: dict[str, dict[str, Any]] = {
    "ours": {"question": Q, "contexts": CHUNKS, "answer": A, "reference": R},
    "ragas": {"user_input": Q, "retrieved_contexts": CHUNKS, "response": A, "reference": R},
    "older ragas": {"question": Q, "contexts": CHUNKS, "answer": A, "ground_truths": [R]},
    "DeepEval": {
        "input": Q,
        "retrieval_context": CHUNKS,
        "actual_output": A,
        "expected_output": R,
        "context": ["what should have been retrieved"],
    },
    "LangSmith": {
        "inputs": {"question": Q},
        "outputs": {"answer": A, "contexts": CHUNKS},
        "reference_outputs": {"answer": R},
    },
    "LlamaIndex": {
        "query": Q,
        "response": A,
        "source_nodes": [{"node": {"text": t, "id_": "n"}, "score": 0.5} for t in CHUNKS],
        "reference_answer": R,
        "reference_contexts": ["what should have been retrieved"],
    },
}


def _jsonl(path: Path, *rows: Any) -> Path:
    file = path / "d.jsonl"
    file.write_text("".join(json.dumps(row) + "\n" for row in rows), "utf-8")
    return file


def test_columns_of_each_tool_are_understood(tmp_path: Path) -> None:
    for tool, columns in ROWS.items():
        (row,) = data_rows(_jsonl(tmp_path, columns))
        assert row.sample is not None, tool
        assert (row.sample.question, row.sample.answer, row.sample.reference) == (Q, A, R), tool
        assert [context.text for context in row.sample.contexts or ()] == CHUNKS, tool


def written(folder: Path, name: str, rows: list[dict[str, Any]]) -> Path:
    pd, path = pytest.importorskip("pandas"), folder / name
    frame = pd.DataFrame(rows)
    if name.endswith(".parquet"):
        frame.to_parquet(path)
    elif ".csv" in name:
        frame.to_csv(path, index=False)
    elif ".jsonl" in name:
        frame.to_json(path, orient="records", lines=True)
    else:
        pa = pytest.importorskip("pyarrow")
        path.mkdir()
        table, file = pa.Table.from_pylist(rows), str(path / "data-00000-of-00001.arrow")
        with pa.OSFile(file, "wb") as sink, pa.ipc.new_stream(sink, table.schema) as writer:
            writer.write_table(table)
    return path


@pytest.mark.parametrize("name", ["d.jsonl.gz", "d.csv", "d.parquet", "saved"])
def test_every_kind_of_file_gives_equal_samples(tmp_path: Path, name: str) -> None:
    rows = [{**ROWS["ours"], "question": f"{Q} {n}", "kind": f"k{n % 3}"} for n in range(500)]
    path = written(tmp_path, name, rows)
    samples = [row.sample for row in data_rows(path)]
    assert len(samples) == 500
    for number, sample in enumerate(samples):
        assert sample is not None
        assert sample.question == f"{Q} {number}"
        assert [context.text for context in sample.contexts or ()] == CHUNKS
        assert (sample.answer, sample.reference) == (A, R)
        assert sample.metadata["kind"] == f"k{number % 3}"
    assert count_rows(path) == (500 if path.suffix == ".jsonl" else None)


def test_cell_may_be_as_long_as_a_line(tmp_path: Path) -> None:
    path, limit = tmp_path / "d.csv", csv.field_size_limit()
    path.write_text(f"question,answer\nq,{'a' * (limit + 1)}\n")
    (row,) = data_rows(path)
    assert row.sample is not None
    assert row.sample.answer == "a" * (limit + 1)
    assert csv.field_size_limit() == limit


def test_overlong_line_is_refused_by_its_number(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("rag_eval_hooks.datasets.data_rows.MAX_LINE_CHARS", 300)
    for name, line in (("d.jsonl", '{"question": "q"}'), ("d.csv.gz", "question")):
        text, path = f"{line}\n{' ' * 301}".encode(), tmp_path / name
        path.write_bytes(gzip.compress(text) if name.endswith("gz") else text)
        with pytest.raises(ConfigError, match="line 2 has more than 300 characters"):
            list(data_rows(path))
    (tmp_path / "d.jsonl").write_text(" " * 301)
    with pytest.raises(InputError, match="jsonl: line 1 has more than 300 characters"):
        read_labels(tmp_path / "d.jsonl")


@given(good=st.lists(st.text(), max_size=4), cut=st.text(min_size=1))
def test_lines_before_a_cut_line_are_rows_and_the_cut_line_is_named(
    good: list[str], cut: str
) -> None:
    rows = [{"question": "q" + text} for text in good]
    whole = json.dumps({"question": cut})
    with tempfile.TemporaryDirectory() as folder:
        lines = Path(folder, "b.jsonl")
        lines.write_text("\n".join([*map(json.dumps, rows), whole[: len(whole) // 2]]))
        *read, last = data_rows(lines)
    assert [row.sample.question for row in read if row.sample] == [row["question"] for row in rows]
    assert f"line {len(rows) + 1} is not valid JSON" in last.error


def test_a_row_that_is_no_sample_is_named(tmp_path: Path) -> None:
    cases: list[tuple[Any, str]] = [
        ({"prompt": Q}, "Columns: prompt. Use --map question"),
        ({"question": " "}, "No column has a question"),
        ({"question": Q, "contexts": 7}, "contexts must be texts or objects with a text, not int"),
        ({"question": Q, "answer": {"deep": 1}}, "answer must be str, not dict"),
        (["a list"], "must be a JSON object"),
    ]
    for row, words in cases:
        first, wrong, last = data_rows(_jsonl(tmp_path, ROWS["ours"], row, ROWS["ragas"]))
        assert (bool(first.sample), wrong.sample, bool(last.sample)) == (True, None, True)
        assert wrong.error.startswith("row 2")
        assert words in wrong.error
    for mapped, words in (({"answr": "answer"}, "did you mean"), ({"answer": "reply"}, "question")):
        with pytest.raises(ConfigError, match=words):
            list(data_rows(_jsonl(tmp_path, ROWS["ours"]), mapped))
