"""The command line: parsing, reading of rows, summing up, tables."""

from __future__ import annotations

import io
import json
import subprocess
import sys
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pytest
from rich.console import Console

from rag_eval_hooks._version import __version__
from rag_eval_hooks.cli import UsageError
from rag_eval_hooks.cli.demo_tables import ASCII_STYLE, scores, summary, worst_sample
from rag_eval_hooks.cli.main import build_parser, main
from rag_eval_hooks.cli.quoting import Mistake
from rag_eval_hooks.cli.results import ResultCollector, suites, summaries
from rag_eval_hooks.cli.rows import QuestionRow, built_in_corpus, corpus_from
from rag_eval_hooks.results.read import ResultRow
from rag_eval_hooks.results.text_table import one_line
from rag_eval_hooks.sample import Sample
from rag_eval_hooks.score import Cause, NotScored, Outcome, Score

GOOD = {"id": "a", "question": "Why?", "contexts": ["Because.", "So."], "reference": None}
OTHER = {**GOOD, "id": "b"}


def written(path: Path, *rows: object) -> Path:
    lines = (row if isinstance(row, str) else json.dumps(row) for row in rows)
    path.write_text("\n".join(lines) + "\n", encoding="utf-8")
    return path


def score(value: float, **details: Any) -> Score:
    return Score(value=value, normalised=value, **details)


def result(row_id: str, outcomes: Mapping[str, Outcome]) -> ResultRow:
    return ResultRow(
        sample=Sample(question="Why?", answer="So.", question_id=row_id), outcomes=outcomes
    )


def shown(renderable: Any, width: int = 120) -> str:
    target = io.StringIO()
    Console(file=target, width=width, no_color=True).print(renderable)
    return target.getvalue()


def test_version(capsys: pytest.CaptureFixture[str]) -> None:
    """`--version` prints the package's version and ends well."""
    with pytest.raises(SystemExit) as ended:
        main(["--version"])
    assert ended.value.code == 0
    assert capsys.readouterr().out.strip() == f"rag-eval-hooks {__version__}"


def test_a_command_is_required(capsys: pytest.CaptureFixture[str]) -> None:
    """Without a command the error says that one is missing, and the exit code says wrong usage."""
    with pytest.raises(SystemExit) as ended:
        main([])
    assert ended.value.code == 2
    assert "COMMAND" in capsys.readouterr().err


@pytest.mark.parametrize("text", ["0", "-1", "many"])
def test_counts_are_positive(text: str, capsys: pytest.CaptureFixture[str]) -> None:
    """A count that is no positive whole number is refused, with what is accepted."""
    with pytest.raises(SystemExit):
        build_parser().parse_args(["demo", "--limit", text])
    assert "a whole number, 1 or more" in capsys.readouterr().err


@pytest.mark.parametrize(
    ("row", "field"),
    [
        ({**GOOD, "id": 7}, "id"),
        ({**OTHER, "question": "  "}, "question"),
        ({**OTHER, "contexts": "one text"}, "contexts"),
        ({**OTHER, "contexts": ["text", 3]}, "contexts"),
        ({**OTHER, "reference": ["x"]}, "reference"),
        ({**OTHER, "labels": "x"}, "labels"),
        ({**OTHER, "mistake": "typo"}, "mistake"),
        (GOOD, "id"),
    ],
)
def test_wrong_field_is_named(row: dict[str, Any], field: str, tmp_path: Path) -> None:
    """A wrong row is an error that names the file, the line and the field."""
    path = written(tmp_path / "rows.jsonl", GOOD, row)
    with pytest.raises(UsageError, match=rf"rows\.jsonl:2: {field}: got "):
        corpus_from(path)


@pytest.mark.parametrize("line", ["{", "[1]", "3"])
def test_line_that_is_no_object(line: str, tmp_path: Path) -> None:
    """A line that is no JSON object is an error that names file and line."""
    path = written(tmp_path / "rows.jsonl", GOOD, "", line)
    with pytest.raises(UsageError, match=r"rows\.jsonl:3: "):
        corpus_from(path)


def test_file_that_is_not_there(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """A missing file ends the command with exit code 2 and one line, not a traceback."""
    assert main(["demo", "--data", str(tmp_path / "none.jsonl")]) == 2
    error = capsys.readouterr().err
    assert "none.jsonl: cannot be read" in error
    assert error.count("\n") == 1


def test_files_without_content(tmp_path: Path) -> None:
    """A file without questions, and questions without passages, are errors."""
    with pytest.raises(UsageError, match="no lines"):
        corpus_from(written(tmp_path / "empty.jsonl", ""))
    with pytest.raises(UsageError, match="contexts"):
        corpus_from(written(tmp_path / "bare.jsonl", {"id": "a", "question": "Why?"}))


def test_corpus_from_rows(tmp_path: Path) -> None:
    """All contexts of the file are passages, each once, also those past the limit."""
    second = {"id": "b", "question": "How?", "contexts": ["So.", "Thus."], "labels": {"kind": 1}}
    data = written(tmp_path / "rows.jsonl", {**GOOD, "more": 1}, second)
    more = written(tmp_path / "more.jsonl", {"text": "Yet."}, {"text": "Because."})
    corpus = corpus_from(data, more, limit=1)
    assert corpus.passages == ("Because.", "So.", "Thus.", "Yet.")
    assert [row.id for row in corpus.rows] == ["a"]
    assert corpus_from(data).rows[1].labels == {"kind": 1}


def test_line_separators_inside_a_text(tmp_path: Path) -> None:
    """A Unicode line separator inside a JSON text does not end the line."""
    row = json.dumps({**GOOD, "question": "Why\u2028now?"}, ensure_ascii=False)
    assert corpus_from(written(tmp_path / "rows.jsonl", row)).rows[0].question == "Why\u2028now?"


def test_passages_need_data(capsys: pytest.CaptureFixture[str], tmp_path: Path) -> None:
    """`--passages` without `--data` is refused."""
    more = written(tmp_path / "more.jsonl", {"text": "Yet."})
    assert main(["demo", "--passages", str(more)]) == 2
    assert "--passages" in capsys.readouterr().err


def test_unknown_framework(capsys: pytest.CaptureFixture[str]) -> None:
    """A framework without a module is refused by its name."""
    assert main(["demo", "--framework", "no-such", "--plain"]) == 2
    assert "rag_eval_hooks_no_such.demo" in capsys.readouterr().err


def test_built_in_corpus() -> None:
    """The built-in corpus has answerable and unanswerable questions and each kind of mistake."""
    corpus = built_in_corpus()
    assert 20 <= len(corpus.passages) <= 40
    assert len({row.question for row in corpus.rows}) == len(corpus.rows) >= 14
    assert {row.mistake for row in corpus.rows} == {None, *Mistake}
    assert sum(row.reference is None for row in corpus.rows) >= 3
    assert len(built_in_corpus(limit=2).rows) == 2
    assert not corpus.without_mistakes().mistakes


def test_missing_package_is_named() -> None:
    """The error for a missing package of the demo is the command that installs it."""
    program = "import sys; sys.modules['rich'] = None; import rag_eval_hooks.cli.main as m; "
    done = subprocess.run(
        [sys.executable, "-c", program + "sys.exit(m.main(['demo']))"],
        capture_output=True,
        text=True,
        timeout=120,
    )
    assert done.returncode == 2
    assert 'pip install "rag-eval-hooks[demo]"' in done.stderr
    assert "Traceback" not in done.stderr


def test_narrow_terminals_keep_the_scores() -> None:
    """A narrow terminal leaves questions out and cuts no score."""
    rows = [QuestionRow(id="q1", question="Why is the sky blue?")]
    metrics = [f"x.a{i}_considerable_name" for i in range(5)]
    results = {"q1": result("q1", dict.fromkeys(metrics, score(0.25)))}
    wide = shown(scores(rows, results, ASCII_STYLE, 120), 120)
    narrow = shown(scores(rows, results, ASCII_STYLE, 80), 80)
    assert "Why is" in wide
    assert "Why is" not in narrow
    assert narrow.count("0.25") == wide.count("0.25") == 5


def test_results_by_question() -> None:
    """A sink keeps the outcomes under the question's id, in the order of arrival."""
    results = ResultCollector()
    for name in ("b", "a"):
        results(Sample(question="Why?", question_id=name), {"x.y": score(1.0)})
    assert list(results.snapshot()) == ["b", "a"]


def test_absent_outcomes_are_in_no_mean() -> None:
    """A mean is over the scores alone; absences are counted by cause."""
    absent = NotScored(Cause.UNDEFINED)
    outcomes: list[Outcome] = [score(1.0), score(0.5), absent, absent]
    lines = summaries(result(str(i), {"x.y": outcome}) for i, outcome in enumerate(outcomes))
    assert [(line.mean, line.scored) for line in lines] == [(0.75, 2)]
    assert lines[0].absent == {Cause.UNDEFINED: 2}


def test_metric_without_any_score() -> None:
    """A metric that nothing was scored for has no mean and no column."""
    results = [result("a", {"x.y": NotScored(Cause.MISSING_INPUT), "x.z": score(1.0)})]
    assert summaries(results)[0].mean is None
    assert suites(results) == {"x": ["x.z"]}


def test_tables_show_scores_and_causes() -> None:
    """A score stands in its question's line; an absence stands in the summary with its cause."""
    rows = [
        QuestionRow(id="q1", question="Why?", mistake=Mistake.NEGATED),
        QuestionRow(id="q2", question="How?"),
    ]
    results = {
        "q1": result("q1", {"x.why_not": score(0.25)}),
        "q2": result("q2", {"x.why_not": NotScored(Cause.TIMEOUT)}),
    }
    table = shown(scores(rows, results, ASCII_STYLE, 120))
    lines = {line.split()[1]: line for line in table.splitlines() if line.startswith("| q")}
    assert "0.25" in lines["q1"]
    assert "negated" in lines["q1"]
    assert "0.25" not in lines["q2"]
    told = shown(summary(results, ASCII_STYLE))
    assert "x.why_not" in told
    assert "1 timeout" in told


def test_worst_sample_names_claim_and_reason() -> None:
    """The failed claim stands with the judge's reason, before the claims that hold."""
    claims = [
        {"claim": "Pigs walk.", "supported": True, "chunks": [1], "reason": ""},
        {"claim": "Pigs fly.", "supported": False, "chunks": [], "reason": "no chunk tells"},
    ]
    found = result("q1", {"ragas.faithfulness": score(0.5, explanation={"claims": claims})})
    text = shown(worst_sample(QuestionRow(id="q1", question="Why?"), found, ASCII_STYLE))
    assert "0.50" in text
    assert text.index("Pigs fly.") < text.index("no chunk tells") < text.index("Pigs walk.")


def test_shown_text_cannot_steer_the_terminal() -> None:
    """Control characters and line breaks of a text are not written to the terminal."""
    text = one_line("a\x1b[2J\x07b\r\nc" + "d" * 100)
    assert text.isprintable()
    assert len(text) <= 60


def test_markup_in_texts_is_shown_as_it_is() -> None:
    """Square brackets in a question are text, not formatting."""
    rows = [QuestionRow(id="q1", question="What is [bold]this[/bold]?")]
    table = scores(rows, {"q1": result("q1", {"x.y": score(1.0)})}, ASCII_STYLE, 120)
    assert "[bold]this[/bold]" in shown(table)


def test_an_output_that_nobody_reads_to_its_end_is_no_error() -> None:
    """Behind `| head` there is no traceback; the exit code tells it as the shell would."""
    command = [sys.executable, "-m", "rag_eval_hooks.cli.main", "metrics"]
    with subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE) as process:
        assert process.stdout is not None
        assert process.stderr is not None
        process.stdout.close()
        told = process.stderr.read()
    assert told == b""
    assert process.returncode == 141
