"""Results files: what the sink writes is what the reader gives."""

from __future__ import annotations

import gzip
import json
import os
import random
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Callable
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from rag_eval_hooks import JsonlSink, RagEval, Sample
from rag_eval_hooks.feedback import Feedback
from rag_eval_hooks.result import Evaluation
from rag_eval_hooks.results import read, to_frame
from rag_eval_hooks.sample import Context
from rag_eval_hooks.score import result_id
from tests.support.evaluation import faithful_judge, sample
from tests.support.results import START, any_outcome, evaluation, write_results
from tests.support.scripts import environment
from tests.waiting import until

JSON = st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False) | st.text()
GOLDEN = Path(__file__).parent.parent / "golden" / "results_1.jsonl"
SEED = int(os.environ.get("RAGEVAL_SEED", "20261122"))


def many(number: int, seed: int = SEED) -> list[Evaluation]:
    """Return evaluations of every kind of field."""
    chance = random.Random(seed)
    pick = chance.choice
    return [
        evaluation(
            Sample(
                question=pick(["why?", "为什么", "لماذا؟", "line\u2028break"]) + str(i),
                contexts=pick([None, (), (Context(text="a"), Context(text="b", id="7"))]),
                answer=pick([None, "because"]),
                reference=pick([None, "since"]),
                metadata={"kind": pick("xyz"), "depth": i},
                truncated=pick([(), ("answer",)]),
                ended_at=pick([None, START - i * 10**9]),
                latency=pick([None, 0.5]),
                sample_id=f"{seed}-{i}",
            ),
            {f"suite.m{k}": any_outcome(chance) for k in range(chance.randint(0, 4))},
            start=START + i * 1_000_000_000,
            probability=pick([None, 0.25]),
            reason=pick(["", "ratio"]),
            passed=pick([None, True, False]),
            verdicts=pick([{}, {"suite.m0": True}]),
        )
        for i in range(number)
    ]


def id_of(one: Evaluation) -> str:
    return result_id(one.sample.sample_id, one.outcomes)


def compared(one: Evaluation) -> list[Any]:
    """Return all fields, those included that equality of outcomes leaves out."""
    drawn = [(each.probability, each.reason) for each in one.outcomes.values()]
    decided = (one.probability, one.reason, one.passed, dict(one.verdicts))
    return [one.sample, one.sample.sample_id, dict(one.outcomes), drawn, decided]


def test_lines_are_written_as_in_version_1(tmp_path: Path) -> None:
    """A row that was read is written as the very line, so that the format cannot drift unseen."""
    for line, row in zip(GOLDEN.read_text("utf-8").splitlines(), read(GOLDEN), strict=True):
        assert row.time is not None
        assert row.evaluated is not None
        made = evaluation(
            row.sample,
            row.outcomes,
            end=round(row.evaluated.timestamp() * 1e9),
            probability=row.probability,
            reason=row.reason,
            passed=row.passed,
            verdicts=row.verdicts,
        )
        path = write_results(tmp_path / f"{id_of(row)}.jsonl", [made])
        written, golden = json.loads(path.read_text("utf-8")), json.loads(line)
        assert written.pop("package") != golden.pop("package")
        assert written == golden
        assert list(written) == list(golden)


def test_every_evaluation_comes_back(tmp_path: Path) -> None:
    made = many(60)
    rows = list(read(write_results(tmp_path / "r.jsonl", made)))
    assert list(map(compared, rows)) == list(map(compared, made))


def _gzipped(path: Path) -> list[Any]:
    archive = path.with_suffix(".jsonl.gz")
    archive.write_bytes(gzip.compress(path.read_bytes()))
    path.unlink()
    return [archive]


def _several(path: Path) -> list[Any]:
    lines = path.read_bytes().splitlines(keepends=True)
    parts = [path.with_name(f"part{number}") for number in range(3)]
    for number, part in enumerate(parts):
        part.write_bytes(b"".join(lines[number::3]))
    return [parts]


def _rotated(path: Path) -> list[Any]:
    lines = path.read_bytes().splitlines(keepends=True)
    for name, part in (("2", lines[:9]), ("2026-01-01", lines[9:12]), ("1", lines[12:20])):
        path.with_name(f"{path.name}.{name}").write_bytes(b"".join(part))
    archive = path.with_name(f"{path.name}-20260102.gz")
    archive.write_bytes(gzip.compress(b"".join(lines[20:25])))
    path.write_bytes(b"".join(lines[25:]))
    return [path]


def _parquet(path: Path) -> list[Any]:
    pytest.importorskip("pyarrow")
    to_frame(read(path)).to_parquet(path.with_suffix(".parquet"))
    return [path.with_suffix(".parquet")]


SOURCES: dict[str, Callable[[Path], list[Any]]] = {
    "gzip": _gzipped,
    "several": _several,
    "rotated": _rotated,
    "parquet": _parquet,
    "folder": lambda path: [path.parent],
    "frame": lambda path: [to_frame(read(path))],
}


@pytest.mark.parametrize("kind", SOURCES)
def test_every_source_gives_equal_rows(tmp_path: Path, kind: str) -> None:
    """Compressed, split, rotated, in a folder, as a frame or Parquet: the rows are the same."""
    path = write_results(tmp_path / "r.jsonl", many(30))
    expected = {id_of(row): compared(row) for row in read(path)}
    results = read(*SOURCES[kind](path))
    assert {id_of(row): compared(row) for row in results} == expected
    assert results.skipped == {}


def test_a_line_that_a_crash_cut_is_counted(tmp_path: Path) -> None:
    """Lines before a cut one are rows, and the cut one is counted, whatever byte is the last."""
    path = write_results(tmp_path / "r.jsonl", many(3))
    content = path.read_bytes()
    last = content.rindex(b"\n", 0, -1) + 1
    for end in random.Random(SEED).sample(range(last + 1, len(content) - 1), 25):
        path.write_bytes(content[:end])
        results = read(path)
        assert len(list(results)) == 2
        assert results.skipped == {"cut": 1}
        # The next writer ends the line, so that its own is whole.
        write_results(path, many(1, seed=end))
        assert len(list(results)) == 3


def test_lines_that_are_no_results_are_counted_by_reason(tmp_path: Path) -> None:
    """Feedback, a later schema, a repeated result, and values that cannot be."""
    path = write_results(tmp_path / "r.jsonl", many(2))
    line = path.read_text("utf-8").splitlines()[0]
    JsonlSink(path).feedback(Feedback(score=0.0))
    wrong = {"schema": 1, "sample": {"question": 7}, "outcomes": {}}
    with path.open("a", encoding="utf-8") as file:
        file.write("\n".join([line, "[]", json.dumps(wrong), '{"schema": 99}', "", "{}"]) + "\n")
    results = read(path)
    assert len(list(results)) == 2
    assert results.skipped == {"feedback": 1, "repeated": 1, "newer": 1, "unreadable": 3}


def test_truncated_archive_gives_its_whole_lines(tmp_path: Path) -> None:
    (path,) = _gzipped(write_results(tmp_path / "r.jsonl", many(200)))
    path.write_bytes(path.read_bytes()[:-300])
    results = read(path)
    assert 0 < len(list(results)) < 200
    assert results.skipped["cut"]
    with pytest.raises(FileNotFoundError, match=r"nowhere\.jsonl"):
        read(tmp_path / "nowhere.jsonl")


@given(st.recursive(JSON, lambda inner: st.lists(inner) | st.dictionaries(st.text(), inner)))
def test_any_json_line_is_a_row_or_counted(value: object) -> None:
    """No line of JSON, whatever it holds, stops the reader."""
    line = {"sample": {"question": "q"}, "outcomes": {}}
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder, "r.jsonl")
        lines = [value, {**line, "schema": value}, {**line, "time": value}, {"outcomes": value}]
        path.write_text("".join(json.dumps(one) + "\n" for one in [*lines, line]), "utf-8")
        results = read(path)
        assert len(list(results)) + results.skipped.total() == len(lines) + 1


def test_a_spool_gives_what_sinks_lack(
    tmp_path: Path, shut_down_after: Callable[[RagEval], RagEval]
) -> None:
    """An evaluated sample that its sink has not taken is a row of the spool."""

    def failing(_: Evaluation) -> None:
        raise OSError("full")

    spool = tmp_path / "spool"
    evals = shut_down_after(
        RagEval("ragas.faithfulness", faithful_judge(), 1.0, failing, spool=str(spool))
    )
    assert evals.submit(sample(ended_at=START))
    until(lambda: spool.exists() and len(list(read(spool))) == 1)
    (row,) = read(spool)
    score = row.scores.get("ragas.faithfulness")
    assert score is not None
    assert (score.value, row.probability) == (1.0, 1.0)
    assert row.time == datetime.fromtimestamp(START / 1e9, UTC)


def test_the_time_is_that_of_the_request(tmp_path: Path) -> None:
    """Times are in UTC; without a known begin, latency is taken off the evaluation's start."""
    known = evaluation(Sample(question="q", ended_at=1_600_000_001_000_000_000, latency=0.5), {})
    unknown = evaluation(Sample(question="q", latency=2.0), {}, start=START)
    first, second = read(write_results(tmp_path / "r.jsonl", [known, unknown]))
    assert first.time == datetime.fromtimestamp(1_600_000_000.5, UTC)
    assert second.time == datetime.fromtimestamp(START / 1e9 - 2, UTC)
    line = json.loads((tmp_path / "r.jsonl").read_text().splitlines()[0])
    assert line["time"].endswith("+00:00")


def test_existing_file_that_others_can_read_is_closed_to_them(tmp_path: Path) -> None:
    """A results file that was made by the umask is readable by its owner alone from now on."""
    path = tmp_path / "r.jsonl"
    path.touch(mode=0o644)
    write_results(path, many(1))
    assert path.stat().st_mode & 0o777 == 0o600


def test_relative_path_after_chdir_stays_the_same_file(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Daemons change their working directory after start-up."""
    monkeypatch.chdir(tmp_path)
    sink = JsonlSink("r.jsonl")
    (tmp_path / "elsewhere").mkdir()
    monkeypatch.chdir(tmp_path / "elsewhere")
    sink.deliver(many(1)[0])
    assert (tmp_path / "r.jsonl").exists()
    assert not (tmp_path / "elsewhere" / "r.jsonl").exists()


def test_processes_write_one_file_together(tmp_path: Path) -> None:
    script = (
        "import sys; from pathlib import Path; from tests.unit.test_results_file import many;"
        "from tests.support.results import write_results;"
        "write_results(Path('r.jsonl'), many(60, seed=int(sys.argv[1])))"
    )
    processes = [
        subprocess.Popen([sys.executable, "-c", script, str(n)], cwd=tmp_path, env=environment())
        for n in range(3)
    ]
    assert [process.wait() for process in processes] == [0] * 3
    results = read(tmp_path / "r.jsonl")
    assert len(list(results)) == 180
    assert results.skipped == {}


def test_names_with_signs_of_patterns_are_taken_literally(tmp_path: Path) -> None:
    """Brackets and stars in a name match no other file."""
    path = tmp_path / "[r]*.jsonl"
    write_results(path, many(40))
    shutil.copy(path, tmp_path / "r1.jsonl.1")
    assert len(list(read(path))) == 40
