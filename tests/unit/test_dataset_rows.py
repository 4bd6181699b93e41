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
from rag_eval_hooks.datasets.data_rows import ROW_KEY, count_rows, data_rows
from rag_eval_hooks.datasets.run import DatasetRun
from rag_eval_hooks.score import UNIT
from tests.support.results import evaluation

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


def only(path: Path, **mapped: str) -> Any:
    (row,) = data_rows(path, mapped)
    assert row.sample is not None, row.error
    return row.sample


@pytest.mark.parametrize("tool", ROWS)
def test_columns_of_each_tool_are_understood(tmp_path: Path, tool: str) -> None:
    """A row of any of these tools is the very same question, chunks, answer and reference."""
    path = tmp_path / "d.jsonl"
    path.write_text(json.dumps(ROWS[tool]) + "\n", "utf-8")
    sample = only(path)
    assert (sample.question, sample.answer, sample.reference) == (Q, A, R)
    assert [context.text for context in sample.contexts] == CHUNKS


def test_an_example_of_langsmith_has_no_answer(tmp_path: Path) -> None:
    """Without reference outputs, its outputs are what is expected: nothing was answered yet."""
    path = tmp_path / "d.jsonl"
    path.write_text(json.dumps({"inputs": {"question": Q}, "outputs": {"answer": R}}), "utf-8")
    sample = only(path)
    assert (sample.answer, sample.reference, sample.contexts) == (None, R, None)


def _jsonl(path: Path, rows: list[Any]) -> Path:
    file = path / "d.jsonl"
    file.write_text("".join(json.dumps(row) + "\n" for row in rows), "utf-8")
    return file


def written(folder: Path, name: str, rows: list[dict[str, Any]]) -> Path:
    """Write rows as pandas does: a cell of CSV holds a list as Python writes it."""
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


@pytest.mark.parametrize("name", ["d.jsonl", "d.jsonl.gz", "d.csv", "d.parquet", "saved"])
def test_every_kind_of_file_gives_equal_samples(tmp_path: Path, name: str) -> None:
    """JSON lines, compressed, CSV, Parquet and a saved data set: equal samples, in order."""
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
    if path.suffix in (".jsonl", ".parquet"):
        assert count_rows(path) == 500


def test_a_long_cell_is_read_and_the_limit_of_the_process_stays(tmp_path: Path) -> None:
    """A cell of CSV may be longer than `csv` allows; its limit is the host's before and after."""
    limit = csv.field_size_limit()
    text = "The ferry is late. " * (limit // 10)
    file = written(tmp_path, "d.csv", [{**ROWS["ours"], "answer": text}] * 3)
    for row in data_rows(file):
        assert row.sample is not None
        assert row.sample.answer == text
        assert csv.field_size_limit() == limit


@pytest.mark.parametrize("name", ["d.jsonl", "d.jsonl.gz", "d.csv.gz"])
def test_overlong_line_is_refused_by_its_number(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, name: str
) -> None:
    """A small compressed file can hold a line that fills the memory."""
    monkeypatch.setattr("rag_eval_hooks.datasets.data_rows.MAX_LINE_CHARS", 300)
    path, line = tmp_path / name, json.dumps({"question": Q}) if "json" in name else "question"
    text = f"{line}\n{' ' * 301}".encode()
    path.write_bytes(gzip.compress(text) if name.endswith("gz") else text)
    with pytest.raises(ConfigError, match="line 2 has more than 300 characters"):
        list(data_rows(path))


def test_other_names_are_mapped(tmp_path: Path) -> None:
    """`--map` names a column, also one inside an object."""
    path = _jsonl(tmp_path, [{"prompt": Q, "run": {"says": A, "saw": CHUNKS}, "gold": R}])
    names = {"answer": "run.says", "contexts": "run.saw", "reference": "gold"}
    sample = only(path, question="prompt", **names)
    assert (sample.question, sample.answer, sample.reference) == (Q, A, R)
    assert [context.text for context in sample.contexts] == CHUNKS


@given(good=st.lists(st.text(), max_size=4), cut=st.text(min_size=1))
def test_rows_of_an_array_are_its_items_and_a_cut_line_is_named(good: list[str], cut: str) -> None:
    rows = [{"question": "q" + text} for text in good]
    whole = json.dumps({"question": cut})
    with tempfile.TemporaryDirectory() as folder:
        array, lines = Path(folder, "a.json"), Path(folder, "b.jsonl")
        array.write_text("\n " + json.dumps(rows, indent=1))
        lines.write_text("\n".join([*map(json.dumps, rows), whole[: len(whole) // 2]]))
        assert [row.sample.question for row in data_rows(array) if row.sample] == [
            row["question"] for row in rows
        ]
        *read, last = data_rows(lines)
    assert len(read) == len(rows)
    assert f"line {len(rows) + 1} is not valid JSON" in last.error


def test_a_wrong_map_is_refused_before_the_first_row(tmp_path: Path) -> None:
    """A field or column that does not exist is named with those that do."""
    path = _jsonl(tmp_path, [ROWS["ours"]])
    with pytest.raises(ConfigError, match=r"answr.*did you mean 'answer'"):
        list(data_rows(path, {"answr": "answer"}))
    with pytest.raises(ConfigError, match=r"answer=reply.*question, contexts"):
        list(data_rows(path, {"answer": "reply"}))
    with pytest.raises(ConfigError, match="datasets"):
        list(data_rows(tmp_path / "d.xlsx"))


@pytest.mark.parametrize(
    ("row", "words"),
    [
        ({"prompt": Q}, "columns: prompt. Use --map question"),
        ({"question": " "}, "No column has a question"),
        ({"question": Q, "contexts": 7}, "contexts must be texts or objects with a text, not int"),
        ({"question": Q, "contexts": [{"title": "x"}]}, "It has title"),
        ({"question": Q, "answer": {"deep": 1}}, "answer must be str, not dict"),
        (["a list"], "must be a JSON object"),
    ],
)
def test_a_row_that_is_no_sample_is_named(tmp_path: Path, row: Any, words: str) -> None:
    """A row that is no sample has a number and a reason, and later rows are read."""
    path = _jsonl(tmp_path, [ROWS["ours"], row, ROWS["ragas"]])
    first, wrong, last = data_rows(path)
    assert first.sample is not None
    assert last.sample is not None
    assert wrong.sample is None
    assert wrong.error.startswith("row 2")
    assert words in wrong.error


def test_row_of_csv_with_more_cells_than_columns_is_named(tmp_path: Path) -> None:
    (path := tmp_path / "d.csv").write_text("question,answer\nwhy?,a\nwhy?,a, b, c\nhow?,a\n")
    first, wrong, last = data_rows(path)
    assert (first.error, last.error) == ("", "")
    assert wrong.error.startswith("row 2: The row has more cells than columns")


def test_changed_row_is_not_done(tmp_path: Path) -> None:
    """Rows are known by number and content."""
    run = DatasetRun(tmp_path / "r.jsonl")
    for row in data_rows(_jsonl(tmp_path, [ROWS["ours"], ROWS["ragas"]])):
        assert row.sample is not None
        assert row.sample.metadata[ROW_KEY] == f"{row.number}-{row.digest:016x}"
        run.deliver(evaluation(row.sample, {"m": UNIT.score(1.0)}))
    again = DatasetRun(tmp_path / "r.jsonl")
    new = data_rows(_jsonl(tmp_path, [ROWS["ours"], ROWS["DeepEval"], ROWS["ragas"]]))
    assert [again.has(row) for row in new] == [True, False, False]
