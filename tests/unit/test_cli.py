"""The command line as a whole: exit codes, and errors without tracebacks."""

from __future__ import annotations

import subprocess
import sys
import tempfile
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from rag_eval_hooks._version import __version__
from rag_eval_hooks.cli.main import main
from rag_eval_hooks.score import UNIT
from tests.support.command_line import run_command
from tests.support.results import evaluation, row, write_results
from tests.support.scripts import environment


def test_version_prints_the_package_version(capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit) as ended:
        main(["--version"])
    assert ended.value.code == 0
    assert capsys.readouterr().out.strip() == f"rag-eval-hooks {__version__}"


def test_command_missing_is_wrong_use(capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit) as ended:
        main([])
    assert ended.value.code == 2
    assert "COMMAND" in capsys.readouterr().err


def test_output_closed_early_ends_without_traceback() -> None:
    """Behind `| head` nothing is printed to stderr, and the exit code is the shell's."""
    command = [sys.executable, "-m", "rag_eval_hooks", "metrics"]
    with subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE) as process:
        assert process.stdout is not None
        assert process.stderr is not None
        process.stdout.close()
        told = process.stderr.read()
    assert told == b""
    assert process.returncode == 141


@pytest.mark.parametrize(
    ("package", "arguments", "command"),
    [
        ("rich", "report r.jsonl", 'pip install ".[report]"'),
        ("jinja2", "report r.jsonl -o r.html", 'pip install ".[report]"'),
        ("celery", "worker", 'pip install ".[celery]"'),
        ("openai", "evaluate d.jsonl --judge openai:m", 'pip install ".[openai]"'),
        ("pyarrow", "evaluate d.parquet", "pip install pyarrow"),
    ],
)
def test_missing_package_is_wrong_use_with_the_command_that_installs_it(
    package: str, arguments: str, command: str, tmp_path: Path
) -> None:
    rows = [row({"m": UNIT.score(1.0)}) for _ in range(3)]
    write_results(tmp_path / "r.jsonl", [evaluation(one.sample, one.outcomes) for one in rows])
    (tmp_path / "d.jsonl").write_text('{"question": "q", "answer": "a"}\n')
    (tmp_path / "d.parquet").write_bytes(b"PAR1")
    program = (
        f"import sys; sys.modules[{package!r}] = None; from rag_eval_hooks.cli.main import main"
    )
    done = subprocess.run(
        [sys.executable, "-c", f"{program}; sys.exit(main({arguments.split()!r}))"],
        cwd=tmp_path,
        env=environment(RAG_EVAL_JUDGE_API_KEY="k"),
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 2, done.stderr
    assert command in done.stderr
    assert "Traceback" not in done.stderr


@given(st.binary(max_size=60), st.sampled_from(["report", "calibrate", "compare", "evaluate"]))
@settings(max_examples=40, deadline=None)
def test_any_bytes_in_a_file_end_without_traceback(data: bytes, command: str) -> None:
    """Whatever a results file, labels or a data set hold, the error is a line."""
    with tempfile.TemporaryDirectory() as folder:
        Path(folder, "x.jsonl").write_bytes(data)
        more = {"report": ("--labels", "x.jsonl"), "calibrate": ("x.jsonl",)}
        more["compare"] = ("x.jsonl",)
        arguments = (command, "x.jsonl", *more.get(command, ()))
        done = run_command(Path(folder), *arguments, variables={})
        assert done.code in (0, 1, 2, 3)


def test_labels_that_are_no_text_are_named(tmp_path: Path) -> None:
    rows = [row({"ragas.faithfulness": UNIT.score(1.0)})]
    write_results(tmp_path / "r.jsonl", [evaluation(one.sample, one.outcomes) for one in rows])
    (tmp_path / "labels.jsonl").write_bytes(b"\xff\xfe\n")
    for arguments in (("report", "r.jsonl", "--labels"), ("calibrate", "r.jsonl")):
        done = run_command(tmp_path, *arguments, "labels.jsonl", variables={})
        assert done.code == 2
        assert "labels" in done.err
