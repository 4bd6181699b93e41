"""Results files: what the sink writes is what the reader gives, and the reports of it."""

from __future__ import annotations

import base64
import gzip
import json
import os
import random
import re
import shutil
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from datetime import UTC, datetime
from functools import partial
from html.parser import HTMLParser
from pathlib import Path
from typing import Any

import pytest

from rag_eval_hooks import NotScored, Outcome, Sample, Score
from rag_eval_hooks.calls import Usage
from rag_eval_hooks.result import Evaluation
from rag_eval_hooks.results import ResultReport, read, to_frame
from rag_eval_hooks.results.render import as_html, as_markdown, as_text
from rag_eval_hooks.results.report import as_json
from rag_eval_hooks.sample import Context
from rag_eval_hooks.score import UNIT, Cause, result_id
from tests.support.command_line import Finished, run_command
from tests.support.optional import require
from tests.support.results import START, any_outcome, evaluation, write_results

require("jinja2", "rich")

GOLDEN = Path(__file__).parent.parent / "golden"
SEED = int(os.environ.get("RAGEVAL_SEED", "20261122"))
HOSTILE = (
    "</script><script>alert(1)</script>",
    "<img src=x onerror=alert(1)>",
    "| a | table |\n\n# heading",
    "{{ 7 * 7 }} {% raw %}",
    "第一班渡轮几点开",
    "متى تغادر العبارة الأولى",
    "\u2028\x00\x1b[31mred\udcff",
    "W" * 3000,
)
FAITHFUL = "ragas.faithfulness"


def many(number: int, seed: int = SEED) -> list[Evaluation]:
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


DECIDED = ("probability", "reason", "passed", "verdicts")


def compared(one: Evaluation) -> list[Any]:
    drawn = [(each.probability, each.reason) for each in one.outcomes.values()]
    decided = [getattr(one, name) for name in DECIDED]
    return [one.sample, one.sample.sample_id, dict(one.outcomes), drawn, decided]


def test_lines_are_written_as_in_version_1(tmp_path: Path) -> None:
    """A row that was read is written as the very line, so that the format cannot drift unseen."""
    golden_file = GOLDEN / "results_1.jsonl"
    lines = golden_file.read_text("utf-8").splitlines()
    for line, row in zip(lines, read(golden_file), strict=True):
        assert row.evaluated is not None
        decided = {name: getattr(row, name) for name in DECIDED}
        end = round(row.evaluated.timestamp() * 1e9)
        made = evaluation(row.sample, row.outcomes, end=end, **decided)
        path = write_results(tmp_path / f"{id_of(row)}.jsonl", [made])
        written, golden = json.loads(path.read_text("utf-8")), json.loads(line)
        assert written.pop("package") != golden.pop("package")
        assert written == golden
        assert list(written) == list(golden)


def _gzipped(path: Path) -> list[Any]:
    archive = path.with_suffix(".jsonl.gz")
    archive.write_bytes(gzip.compress(path.read_bytes()))
    path.unlink()
    return [archive]


def _rotated(path: Path) -> list[Any]:
    lines = path.read_bytes().splitlines(keepends=True)
    for name, part in (("2", lines[:9]), ("2026-01-01", lines[9:12]), ("1", lines[12:20])):
        path.with_name(f"{path.name}.{name}").write_bytes(b"".join(part))
    archive = path.with_name(f"{path.name}-20260102.gz")
    archive.write_bytes(gzip.compress(b"".join(lines[20:25])))
    path.write_bytes(b"".join(lines[25:]))
    return [path]


def _filled(path: Path) -> list[Any]:
    path.unlink()
    with ThreadPoolExecutor(3) as pool:
        write = partial(write_results, path, max_bytes=4000)
        list(pool.map(write, [many(30)[start::3] for start in (1, 2, 3)]))
    os.utime(path, (0, 0))
    write_results(path, many(30)[:1], daily=True)
    full = list(path.parent.glob("?r?*.jsonl.2*"))
    assert len(full) > 3 > path.read_bytes().count(b"\n")
    assert all(file.stat().st_size <= 4000 for file in full)
    return [path]


def _parquet(path: Path) -> list[Any]:
    pytest.importorskip("pyarrow")
    to_frame(read(path)).to_parquet(path.with_suffix(".parquet"))
    return [path.with_suffix(".parquet")]


SOURCES: dict[str, Callable[[Path], list[Any]]] = {
    "file": lambda path: [path],
    "gzip": _gzipped,
    "rotated": _rotated,
    "filled": _filled,
    "parquet": _parquet,
    "folder": lambda path: [path.parent],
    "frame": lambda path: [to_frame(read(path))],
}


@pytest.mark.parametrize("kind", SOURCES)
def test_every_source_gives_the_written_rows(tmp_path: Path, kind: str) -> None:
    made = many(30)
    path = write_results(tmp_path / "[r]*.jsonl", made)
    shutil.copy(path, tmp_path / "r1.jsonl.1")
    if kind == "folder":
        (tmp_path / "r1.jsonl.1").unlink()
    results = read(*SOURCES[kind](path))
    assert {id_of(row): compared(row) for row in results} == {id_of(m): compared(m) for m in made}
    assert results.skipped == {}


def test_a_line_that_a_crash_cut_is_counted(tmp_path: Path) -> None:
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
    (archive,) = _gzipped(write_results(tmp_path / "a.jsonl", many(200)))
    archive.write_bytes(archive.read_bytes()[:-300])
    results = read(archive)
    assert 0 < len(list(results)) < 200
    assert results.skipped["cut"]


# Reports and comparisons from the command line.


def results(folder: Path, number: int = 24) -> Path:
    chance = random.Random(SEED)
    end = int(datetime(2026, 3, 8, tzinfo=UTC).timestamp() * 1e9)
    made = []
    for i in range(number):
        text, value = HOSTILE[i % len(HOSTILE)], round(chance.random(), 3)
        claim = {"claim": text, "supported": value > 0.5, "chunks": [1], "reason": text}
        score = UNIT.score(
            value,
            label=text[:30],
            explanation={"claims": [claim]},
            usage=Usage(1, 100, 10, 0.001),
            probability=chance.choice([0.1, 1.0]),
            screening=True,
        )
        other = NotScored(Cause.TIMEOUT, text[:40]) if i % 5 == 0 else UNIT.score(1 - value)
        asked = Sample(
            question=f"{text} {i}",
            contexts=(Context(text=text, id=text[:9]),),
            answer=text,
            metadata={"method": ("one", text[:20])[i % 2]},
            ended_at=end - i * 3_600_000_000_000,
            sample_id=f"s{i}",
        )
        outcomes: dict[str, Outcome] = {FAITHFUL: score, "own.other": other}
        made.append(evaluation(asked, outcomes, probability=0.5, passed=value > 0.5))
    return write_results(folder / "r.jsonl", made)


def command(folder: Path, *arguments: str) -> Finished:
    return run_command(folder, *arguments, variables={})


class Page(HTMLParser):
    def __init__(self, text: str) -> None:
        super().__init__()
        self.scripts: list[tuple[str | None, str]] = []
        self.references: list[str] = []
        self.tags: set[str] = set()
        self.shown: list[str] = []
        self.feed(text)

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.tags.add(tag)
        loads = ("src", "href", "srcset", "data")
        self.references += [str(value) for name, value in attrs if name in loads and value]
        if tag == "script":
            self.scripts.append((dict(attrs).get("type"), ""))

    def handle_data(self, data: str) -> None:
        self.shown.append(data)
        if self.lasttag == "script" and self.cdata_elem:
            self.scripts[-1] = self.scripts[-1][0], self.scripts[-1][1] + data


def test_page_has_every_sample_loads_nothing_and_runs_no_text(tmp_path: Path) -> None:
    path = results(tmp_path, 60)
    assert command(tmp_path, "report", str(path), "-o", "r.html").code == 0
    assert (tmp_path / "r.html").stat().st_mode & 0o777 == 0o600
    page = Page((tmp_path / "r.html").read_text("utf-8"))
    assert page.references == ["#samples"]
    (_, plain), *packed, (kind, script) = page.scripts
    assert ({kind for kind, _ in packed}, kind) == ({"text/plain"}, None)
    assert "alert(1)" not in script
    index = json.loads(plain)
    blocks = [json.loads(gzip.decompress(base64.b64decode(block))) for _, block in packed]
    details = [sample for block in blocks for sample in block]
    rows = {row.sample.sample_id: row for row in read(path)}
    faithful = [sample["s"][index["metrics"].index(FAITHFUL)] for sample in index["samples"]]
    assert faithful == sorted(faithful)
    for entry, detail in zip(index["samples"], details, strict=True):
        row = rows.pop(str(re.findall(r">id: (s\d+)\n", detail)[0]))
        assert row.sample.question.startswith(entry["q"])
        texts = Page(detail)
        assert row.sample.answer in texts.shown
        assert not {"script", "img"} & texts.tags
    assert not rows


def test_no_text_of_a_user_adds_a_line_a_column_or_a_control_character(tmp_path: Path) -> None:
    path = str(results(tmp_path))
    for arguments in (["report", path], ["compare", path, path]):
        for kind in ("text", "md"):
            done = command(tmp_path, *arguments, "--format", kind)
            assert done.code in (0, 3)
            # A page in place of the results would lose them.
            assert command(tmp_path, *arguments, "-o", path).code == 2
            assert not re.search(r"[\x00-\x09\x0b-\x1f\x7f]", done.out)
            assert "<script" not in re.sub(r"\\<", "", done.out) or kind == "text"
            assert "creening" in done.out
            for table in re.findall(r"(?:^\|.*\n)+", done.out, re.MULTILINE):
                rows = [re.findall(r"(?<!\\)\|", line) for line in table.splitlines()]
                assert len(set(map(len, rows))) == 1


CLASSES = {"local_search": (6, 2, 0), "basic_search": (6, 2, 0), "llm_with_context": (5, 2, 1)}
LABELS = ("CORRECT", "WRONG", "DON'T KNOW")


def test_report_of_a_known_file_is_the_golden_one(tmp_path: Path) -> None:
    labels = [
        (method, label, n)
        for method, counts in CLASSES.items()
        for label, count in zip(LABELS, counts, strict=True)
        for n in range(count)
    ]
    made = [
        evaluation(
            Sample(question=f"q{at}", metadata={"method": method}, sample_id=f"s{at}"),
            {
                "graphrag.answer_class": Score(
                    value=100.0 * (label == "CORRECT"), normalized=label == "CORRECT", label=label
                ),
                "graphrag.factual_accuracy_percentage": Score(
                    value=12.5 * n, normalized=n / 8, label="EDCBA"[n // 2], version="0.1.0"
                ),
            },
        )
        for at, (method, label, n) in enumerate(labels)
    ]
    report = ResultReport(read(write_results(tmp_path / "r.jsonl", made)))
    shown, golden = as_markdown(report), GOLDEN / "report.md"
    if not golden.exists():
        golden.write_text(shown, "utf-8")
    assert shown == golden.read_text("utf-8")
    plain = json.loads(json.dumps(as_json(report)))["metrics"]["graphrag.answer_class"]
    names = ("correct_answers_count", "wrong_answers_count", "dont_know_answers_count")
    assert [plain[name] for name in names] == [17, 6, 1]
    assert plain["estimate"]["mean"] == pytest.approx(100 * 17 / 24)
    for text in (as_text(shown), shown.replace("\\", ""), as_html(report)):
        assert all(name in text for name in (*names, "70.8 %"))


def test_page_can_be_written_whatever_an_explanation_has() -> None:
    scored = UNIT.score(0.5, explanation={"claims": [{"claim": "c", "verdict": ["\udcff"]}]})
    page = as_html(ResultReport([evaluation(Sample(question="\ud800"), {FAITHFUL: scored})]))
    assert page.encode()


def test_labels_correct_the_mean_of_a_biased_judge(tmp_path: Path) -> None:
    chance = random.Random(SEED)
    truth = {f"s{i}": chance.random() < 0.4 for i in range(300)}
    rows, labels = [], []
    for name, right in truth.items():
        value = float(right or chance.random() < 0.6)
        rows.append(evaluation(Sample(question="q", sample_id=name), {FAITHFUL: UNIT.score(value)}))
        if chance.random() < 0.4:
            labels.append(json.dumps({"sample_id": name, "supported": right}))
    write_results(tmp_path / "r.jsonl", rows)
    (tmp_path / "labels.jsonl").write_text("\n".join(labels))
    arguments = ("report", "r.jsonl", "--labels", "labels.jsonl", "--format", "json")
    (found,) = json.loads(command(tmp_path, *arguments).out)["labelled"]
    mean = sum(truth.values()) / len(truth)
    assert (found["metric"], found["labels"]) == (FAITHFUL, len(labels))
    assert found["estimate"]["low"] < mean < found["estimate"]["high"]
    assert not found["judge"]["low"] < mean < found["judge"]["high"]


def test_gates_set_the_exit_code(tmp_path: Path) -> None:
    chance = random.Random(SEED)
    before = [min(1.0, max(0.0, chance.gauss(0.6, 0.2))) for _ in range(300)]
    after = [max(0.0, value - 0.03 * (at % 2)) for at, value in enumerate(before)]
    for name, values in (("base", before), ("new", after), ("none", [])):
        outcomes: list[Outcome] = [*map(UNIT.score, values)]
        asked = (Sample(question=f"q{n}", metadata={"kind": n % 2}) for n in range(300))
        made = zip(asked, outcomes or [NotScored(Cause.JUDGE_FAILED)] * 5, strict=False)
        write_results(tmp_path / name, [evaluation(one, {FAITHFUL: each}) for one, each in made])
    for arguments, code, words in (
        ("base new", 0, "300 samples in both runs"),
        (f"base new --fail-on {FAITHFUL}<0.99", 1, "FAILED"),
        (f"base new --fail-on-point {FAITHFUL}<0.6", 1, "FAILED"),
        ("base new --fail-on-regression 0.02 --by kind", 1, "FAILED"),
        ("base new --fail-on-regression 0.05 --by kind", 0, ""),
        ("base new --fail-on faithfulness:1", 2, ""),
        (f"none none --fail-on {FAITHFUL}<0.1", 1, "no sample has a score"),
        ("none none", 3, f"Without a score in one of the runs: {FAITHFUL}"),
    ):
        done = command(tmp_path, "compare", *arguments.split())
        assert (done.code, words in done.out) == (code, True), arguments + done.err + done.out
