"""Reports: one set of results as a page, tables and JSON, from the command line."""

from __future__ import annotations

import base64
import gzip
import json
import os
import random
import re
from datetime import UTC, datetime, timedelta
from html.parser import HTMLParser
from pathlib import Path

import pytest

from rag_eval_hooks import NotScored, Sample, Score
from rag_eval_hooks.results import read
from rag_eval_hooks.results.render import as_html, as_markdown, as_text
from rag_eval_hooks.results.report import as_json, make_report
from rag_eval_hooks.sample import Context
from rag_eval_hooks.score import UNIT, Cause
from rag_eval_hooks.usage import Usage
from tests.support.command_line import Finished, run_command
from tests.support.optional import require
from tests.support.results import evaluation, write_results

require("jinja2", "rich")

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


def results(folder: Path, number: int = 24, now: datetime | None = None) -> Path:
    """Write results with hostile texts in every field that an application fills."""
    chance = random.Random(SEED)
    end = int((now or datetime(2026, 3, 8, tzinfo=UTC)).timestamp() * 1e9)
    made = []
    for i in range(number):
        text = HOSTILE[i % len(HOSTILE)]
        value = round(chance.random(), 3)
        claim = {"claim": text, "supported": value > 0.5, "chunks": [1], "reason": text}
        score = Score(
            value=value,
            normalized=value,
            label=text[:30],
            explanation={"claims": [claim]},
            annotator="judge",
            version="0.1.0+prompts.1",
            usage=Usage(1, 100, 10, 0.001),
            probability=chance.choice([0.1, 1.0]),
        )
        outcomes = {FAITHFUL: score, "own.other": UNIT.score(1 - value)}
        if i % 5 == 0:
            outcomes["own.other"] = NotScored(Cause.TIMEOUT, text[:40])  # type: ignore[assignment]
        sample = Sample(
            question=f"{text} {i}",
            contexts=(Context(text=text, id=text[:9]),),
            answer=text,
            metadata={"method": ("one", text[:20])[i % 2]},
            ended_at=end - i * 3_600_000_000_000,
            sample_id=f"s{i}",
        )
        made.append(evaluation(sample, outcomes, probability=0.5, passed=value > 0.5))
    return write_results(folder / "r.jsonl", made)


def command(folder: Path, *arguments: str) -> Finished:
    return run_command(folder, *arguments, variables={})


class Page(HTMLParser):
    """Scripts and references of a page."""

    def __init__(self, text: str) -> None:
        super().__init__()
        self.scripts: list[tuple[str | None, str]] = []
        self.references: list[str] = []
        self.feed(text)

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        values = dict(attrs)
        names = ("src", "href", "srcset", "data")
        self.references += [str(values[name]) for name in names if values.get(name)]
        if tag == "script":
            self.scripts.append((values.get("type"), ""))

    def handle_data(self, data: str) -> None:
        if self.lasttag == "script" and self.cdata_elem:
            kind, text = self.scripts[-1]
            self.scripts[-1] = kind, text + data


def test_page_has_every_sample_loads_nothing_and_runs_no_text(tmp_path: Path) -> None:
    """The index has every sample, the worst first; blocks have all texts, markup has none."""
    path = results(tmp_path, 60)
    (tmp_path / "r.html").touch(0o644)
    assert command(tmp_path, "report", str(path), "-o", "r.html").code == 0
    assert (tmp_path / "r.html").stat().st_mode & 0o777 == 0o600
    text = (tmp_path / "r.html").read_text("utf-8")
    page = Page(text)
    assert page.references == ["#samples"]
    kinds = [kind for kind, _ in page.scripts]
    assert kinds == ["application/json", "text/plain", "text/plain", "text/plain", None]
    assert "alert(1)" not in page.scripts[-1][1]
    assert "49" not in re.findall(r"<h1>(.*?)</h1>", text)
    index = json.loads(page.scripts[0][1])
    blocks = [
        json.loads(gzip.decompress(base64.b64decode(block)))
        for kind, block in page.scripts
        if kind == "text/plain"
    ]
    details = [sample for block in blocks for sample in block]
    rows = {row.sample.sample_id: row for row in read(path)}
    assert [len(block) for block in blocks] == [index["size"], index["size"], 10]
    faithful = [sample["s"][index["metrics"].index(FAITHFUL)] for sample in index["samples"]]
    assert faithful == sorted(faithful)
    for entry, sample in zip(index["samples"], details, strict=True):
        row = rows[sample["facts"]["id"]]
        assert sample["question"].startswith(entry["q"])
        assert sample["answer"] == row.sample.answer
        assert sample["outcomes"][FAITHFUL]["value"] == row.outcomes[FAITHFUL].value


@pytest.mark.parametrize("kind", ["text", "md"])
def test_tables_hold_what_they_are_given(tmp_path: Path, kind: str) -> None:
    """No text of a user adds a line, a column or a control character to a table."""
    done = command(tmp_path, "report", str(results(tmp_path)), "--format", kind)
    assert done.code == 0
    assert not re.search(r"[\x00-\x09\x0b-\x1f\x7f]", done.out)
    if kind == "md":
        for table in re.findall(r"(?:^\|.*\n)+", done.out, re.MULTILINE):
            assert len({len(re.findall(r"(?<!\\)\|", line)) for line in table.splitlines()}) == 1
        assert "<script" not in re.sub(r"\\<", "", done.out)
    assert "timeout" in done.out


def test_every_format_has_the_same_numbers(tmp_path: Path) -> None:
    """Mean and interval in JSON are those that the tables show; one sample has no interval."""
    (tmp_path / "one").mkdir()
    alone = make_report(read(results(tmp_path / "one", 1)))
    assert as_json(alone)["metrics"][FAITHFUL]["estimate"]["low"] is None
    assert all((as_html(alone), as_text(as_markdown(alone))))
    report = make_report(read(results(tmp_path)))
    plain = as_json(report)
    json.dumps(plain)
    found = plain["metrics"][FAITHFUL]
    assert found["scored"] == 24
    assert found["estimate"]["low"] < found["estimate"]["mean"] < found["estimate"]["high"]
    shown = f"{round(found['estimate']['mean'], 3):g}"
    assert shown in as_text(as_markdown(report))
    assert shown in as_markdown(report)
    assert plain["metrics"]["own.other"]["not_scored"] == {"timeout": 5}
    assert plain["cost"]["cost"] == pytest.approx(0.024)
    assert set(plain["groups"]) >= {"method"}


def test_the_worst_of_the_last_hours(tmp_path: Path) -> None:
    """`--worst` shows the lowest scores of the time that was asked for, and why they are low."""
    now = datetime.now(UTC)
    path = results(tmp_path, now=now - timedelta(minutes=5))
    rows = [row for row in read(path) if row.time and row.time > now - timedelta(hours=6)]
    done = command(tmp_path, "report", str(path), "--since", "6h", "--worst", "3")
    assert done.code == 0
    shown = re.findall(r"\bid (s\d+)", done.out)
    ranked = sorted(rows, key=lambda row: row.scores[FAITHFUL].value)
    assert shown == [row.sample.sample_id for row in ranked[:3]]
    assert f"3 of {len(rows)} scored samples" in done.out
    assert "supported" in done.out


@pytest.mark.parametrize("form", ["supported", "value", "results"])
def test_labels_correct_the_mean_of_a_biased_judge(tmp_path: Path, form: str) -> None:
    """Labels of people, or of a better judge, give a mean that holds the truth; the judge's not."""
    chance = random.Random(f"{SEED} {form}")
    truth = {f"s{i}": chance.random() < 0.4 for i in range(300)}
    judged, better, labels = [], [], []
    for name, right in truth.items():
        value = float(right or chance.random() < 0.6)
        sample = Sample(question=f"第 {name} 问?", answer="…", sample_id=name)
        judged.append(evaluation(sample, {FAITHFUL: UNIT.score(value)}))
        if chance.random() < 0.4:
            other = Sample(question=sample.question, answer="…")
            better.append(evaluation(other, {FAITHFUL: UNIT.score(float(right))}))
            line = {"sample_id": name, "supported": right}
            if form == "value":
                line = {"sample_id": name, "metric": FAITHFUL, "value": float(right)}
            labels.append(json.dumps(line))
    write_results(tmp_path / "r.jsonl", judged)
    if form == "results":
        write_results(tmp_path / "labels.jsonl", better)
    else:
        (tmp_path / "labels.jsonl").write_text("\n".join(labels))
    arguments = ("report", "r.jsonl", "--labels", "labels.jsonl")
    done = command(tmp_path, *arguments, "--format", "json")
    assert done.code == 0, done.err
    (found,) = json.loads(done.out)["labelled"]
    mean = sum(truth.values()) / len(truth)
    assert (found["metric"], found["labels"]) == (FAITHFUL, len(labels))
    assert found["estimate"]["low"] < mean < found["estimate"]["high"]
    assert not found["judge"]["low"] < mean < found["judge"]["high"]
    for kind in ("text", "md", "html"):
        shown = command(tmp_path, *arguments, "--format", kind)
        assert "labels and the judge" in shown.out
        assert f"{round(found['estimate']['mean'], 3):g}" in shown.out


def test_cuts_and_conditions_of_the_command(tmp_path: Path) -> None:
    """`--where`, `--metric` and `--cut` say what is in the report, and what is low in it."""
    outcomes = {FAITHFUL: UNIT.score(0.7), "own.other": UNIT.score(0.1)}
    samples = [Sample(question=f"q{i}", tags=(("beta",), ())[i % 2]) for i in range(10)]
    write_results(tmp_path / "r.jsonl", [evaluation(one, outcomes) for one in samples])
    arguments = ("r.jsonl", "--format", "json", "--where", "tag=beta", "--metric", "ragas")
    for cuts, patterns in (((), []), (("--cut", f"{FAITHFUL}=0.2:0.65"), ["high throughout"])):
        plain = json.loads(command(tmp_path, "report", *arguments, *cuts).out)
        assert (plain["samples"], list(plain["metrics"])) == (5, [FAITHFUL])
        assert [each["pattern"] for each in plain["look_at_first"]] == patterns
    assert command(tmp_path, "report", "r.jsonl", "--where", "lang=fr").code == 2


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        (("r.jsonl", "--cut", "ragas.faithful=0.1:0.2"), "did you mean 'ragas.faithfulness'?"),
        (("r.jsonl", "--by", "workflw"), "did you mean 'workflow'?"),
        (("r.jsonl", "--where", "workflw=x"), "did you mean 'workflow'?"),
        (("other.jsonl",), "`rag-eval-hooks evaluate DATA -o RESULTS` writes results"),
        (("r.jsonl", "--cut", "ragas.faithfulness=2"), "Use METRIC=LOW:HIGH"),
        (("r.jsonl", "--labels", "other.jsonl"), "no metric has labels"),
        (("r.jsonl", "--labels", "bad.jsonl"), "labels: line 2"),
        (("nowhere.jsonl", "--worst", "3"), "nowhere.jsonl: no such file"),
        (("r.jsonl", "--worst", "-3"), "--worst: '-3' is not accepted. Use a whole number, 1"),
        (("r.jsonl", "--since", "yesterdayish"), "Use 24h, 90m, 7d, today"),
        (("noise.parquet",), "contains no result with an outcome (skipped lines: 1 unreadable)"),
        (("r.jsonl", "--since", "2126-01-01"), "None of 24 results matches --where"),
        (("r.jsonl", "-o", "no/such/folder.html"), "no/such/folder.html: No such file"),
    ],
)
def test_wrong_input_is_named(tmp_path: Path, arguments: tuple[str, ...], words: str) -> None:
    """A missing file, an unknown metric or time end with code 2 and say what is wanted."""
    results(tmp_path)
    label = '{"sample_id": "of nobody", "supported": true}\n'
    (tmp_path / "other.jsonl").write_text(label)
    (tmp_path / "noise.parquet").write_bytes(os.urandom(300))
    (tmp_path / "bad.jsonl").write_text(label + '{"sample_id": "s1", "value": "high"}')
    done = command(tmp_path, "report", *arguments)
    assert done.code == 2
    assert words in done.err
