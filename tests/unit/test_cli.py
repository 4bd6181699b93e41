"""The command line as a whole: exit codes, and errors without tracebacks."""

from __future__ import annotations

import json
import subprocess
import sys
import tempfile
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from rag_eval_hooks.cli.main import main
from rag_eval_hooks.metrics import ALL_METRICS, example
from tests.support.command_line import run_command
from tests.support.scripts import environment
from tests.support.size import size


def test_output_closed_early_ends_without_traceback() -> None:
    command = [sys.executable, "-m", "rag_eval_hooks", "metrics"]
    with subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE) as process:
        assert process.stdout is not None
        assert process.stderr is not None
        process.stdout.close()
        told = process.stderr.read()
    assert told == b""
    assert process.returncode == 141


def test_missing_package_is_wrong_use_with_the_command_that_installs_it(
    tmp_path: Path, subtests: pytest.Subtests
) -> None:
    (tmp_path / "d.parquet").write_bytes(b"PAR1")
    (tmp_path / "d.jsonl").write_text('{"question": "q", "answer": "a"}\n')
    for package, arguments, command in (
        ("openai", "evaluate d.jsonl --judge openai:m", 'pip install ".[openai]"'),
        ("pyarrow", "evaluate d.parquet", "pip install pyarrow"),
    ):
        with subtests.test(package):
            program = f"""if True:
                import sys
                sys.modules[{package!r}] = None
                from rag_eval_hooks.cli.main import main
                sys.exit(main({arguments.split()!r}))"""
            more: dict[str, Any] = {"cwd": tmp_path, "env": environment(RAG_EVAL_JUDGE_API_KEY="k")}
            done = subprocess.run([sys.executable, "-c", program], stderr=subprocess.PIPE, **more)
            told = done.stderr.decode()
            assert (done.returncode, command in told) == (2, True), told
            assert "Traceback" not in told


@pytest.mark.parametrize("option", size(["-c"], ["--concurrency", "-c", "--pool"]))
def test_worker_gives_celery_its_options(option: str) -> None:
    pytest.importorskip("celery")
    command = [sys.executable, "-m", "rag_eval_hooks", "worker", option, "no-value-of-celery"]
    variables = environment(RAG_EVAL_BROKER="redis://127.0.0.1:9/0")
    done = subprocess.run(command, stderr=subprocess.PIPE, env=variables, check=False)
    assert b"no-value-of-celery" in done.stderr
    assert b"rag-eval-hooks worker: error" not in done.stderr


JSON = st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False) | st.text()
VALUES = JSON | st.lists(JSON) | st.dictionaries(st.text(), JSON | st.lists(JSON))
LINES = st.builds(json.dumps, st.fixed_dictionaries({"sample": VALUES, "outcomes": VALUES}))


@given(
    st.binary(max_size=60) | LINES.map(str.encode),
    st.sampled_from(["report", "calibrate", "compare", "evaluate"]),
)
@settings(max_examples=40, deadline=None)
def test_any_bytes_in_a_file_end_without_traceback(data: bytes, command: str) -> None:
    with tempfile.TemporaryDirectory() as folder:
        Path(folder, "x.jsonl").write_bytes(data)
        more = {"report": ("--labels", "x.jsonl"), "calibrate": ("x.jsonl",)}
        more["compare"] = ("x.jsonl",)
        arguments = (command, "x.jsonl", *more.get(command, ()))
        done = run_command(Path(folder), *arguments, variables={})
        assert done.code in (0, 1, 2, 3)


def test_metrics_lists_every_metric_and_works_its_example(
    capsys: pytest.CaptureFixture[str], subtests: pytest.Subtests
) -> None:
    assert main(["metrics"]) == 0
    lines = capsys.readouterr().out.splitlines()[1:]
    for line, metric in zip(lines, ALL_METRICS, strict=True):
        with subtests.test(metric.id):
            direction = "higher" if metric.scale.higher_is_better else "lower"
            scale = f"{metric.scale.low:g} to {metric.scale.high:g}"
            assert all(text in line for text in (metric.id, scale, direction, metric.source))
            assert main(["metrics", metric.id]) == 0
            text = capsys.readouterr().out
            outcome = metric.score(*example())
            assert outcome.value is not None
            assert f"value = {outcome.value:.4g}" in text
            assert metric.summary in " ".join(text.split())
