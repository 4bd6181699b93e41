"""`rag-eval-hooks doctor` against real endpoints, good and bad ones."""

from __future__ import annotations

import re
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.support.command_line import run_command
from tests.support.servers.judge_server import JudgeServer
from tests.support.servers.otlp_collector import OtlpCollector

KEY = "sk-canary-0123456789abcdef"
QUIET = {"RAG_EVAL_EMBEDDER": "none"}


def doctor(folder: Path, *arguments: str, **variables: str) -> tuple[int, str]:
    done = run_command(folder, "doctor", *arguments, variables={"HF_HUB_OFFLINE": "1", **variables})
    assert KEY not in done.out + done.err
    return done.code, done.out + done.err


def results(folder: Path, *arguments: str, **variables: str) -> tuple[int, dict[str, str]]:
    """Return the exit code, and each check's lines in one text."""
    code, text = doctor(folder, *arguments, **variables)
    rows = re.findall(r"^(\w+ +([\w ]+): .*(?:\n +-> .*)?)", text, re.MULTILINE)
    assert any(row.startswith("failed") for row, _ in rows) == (code != 0)
    return code, {check: row for row, check in rows}


def openai(server: JudgeServer, **changes: str) -> dict[str, str]:
    return {
        "RAG_EVAL_JUDGE": "openai:good",
        "RAG_EVAL_JUDGE_BASE_URL": server.url,
        "RAG_EVAL_JUDGE_API_KEY": KEY,
        **QUIET,
        **changes,
    }


@pytest.fixture
def judge() -> Iterator[JudgeServer]:
    with JudgeServer(api_key=KEY, models=["good"]) as server:
        yield server


def test_doctor_without_settings_finds_nothing_wrong(tmp_path: Path) -> None:
    code, text = doctor(tmp_path, **QUIET)
    assert code == 0
    assert "failed" not in text


def test_doctor_tries_the_embedder_beside_any_judge(tmp_path: Path) -> None:
    variables = {"RAG_EVAL_JUDGE_BASE_URL": "http://127.0.0.1:9", "OPENAI_API_KEY": KEY}
    code, checks = results(tmp_path, RAG_EVAL_EMBEDDER="openai:m", **variables)
    assert code == 1
    assert "cannot connect to 127.0.0.1:9" in checks["embedder"]


def test_doctor_with_an_unserved_version_fails_and_names_the_served_ones(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (info := tmp_path / "openai-0.28.1.dist-info").mkdir()
    (info / "METADATA").write_text("Metadata-Version: 2.1\nName: openai\nVersion: 0.28.1\n")
    monkeypatch.syspath_prepend(tmp_path)
    code, checks = results(tmp_path, **QUIET)
    assert code == 1
    assert checks["versions"].startswith("failed")
    assert "openai 0.28.1" in checks["versions"]
    assert checks["versions"].endswith('-> pip install "openai>=1.60"')


def test_doctor_tries_judge_and_receiver_and_writes_nothing(
    judge: JudgeServer, tmp_path: Path
) -> None:
    settings = openai(judge, RAG_EVAL_SINKS=f"jsonl:{tmp_path}/scores.jsonl")
    with OtlpCollector() as collector:
        code, rows = results(tmp_path, "--otlp-endpoint", collector.url, **settings)
    assert code == 0, rows
    assert re.search(r"in \d.*s with [1-9]\d* prompt tokens", rows["judge"])
    assert rows["receiver of spans"].startswith("ok")
    assert collector.span_names == ["doctor"]
    assert not (tmp_path / "scores.jsonl").exists()


def test_doctor_masks_secrets(judge: JudgeServer, tmp_path: Path) -> None:
    code, _ = doctor(tmp_path, "--set", f"judge_headers=X-Key={KEY}", **openai(judge))
    assert code == 0
    for address in (f"http://user:{KEY}@host", f"http://host/?key={KEY}"):
        assert doctor(tmp_path, **QUIET, RAG_EVAL_SINKS=f"phoenix:{address}")[0] == 1


@pytest.mark.parametrize(
    ("changes", "check", "text"),
    [
        ({"RAG_EVAL_JUDGE_API_KEY": "wrong"}, "judge", "HTTP 401"),
        ({"RAG_EVAL_JUDGE": "openai:gone"}, "judge", "HTTP 404"),
        ({"RAG_EVAL_JUDGE_BASE_URL": "http://127.0.0.1:9/v1"}, "judge", "127.0.0.1:9"),
        ({"RAG_EVAL_METRICS": "ragas.faithfulnes"}, "settings", "ragas.faithfulness"),
    ],
)
def test_doctor_names_each_problem(
    changes: dict[str, str], check: str, text: str, judge: JudgeServer, tmp_path: Path
) -> None:
    code, rows = results(tmp_path, **openai(judge, **changes))
    assert code == 1
    assert rows[check].startswith("failed")
    assert text in rows[check]


@pytest.mark.parametrize(
    ("variable", "path", "wanted"),
    [
        ("OTEL_EXPORTER_OTLP_ENDPOINT", "/v1/traces", "/v1/traces/v1/traces"),
        ("OTEL_EXPORTER_OTLP_TRACES_ENDPOINT", "/ingest", "/ingest"),
    ],
)
def test_doctor_reads_otel_variables_as_the_sdk_does(
    variable: str, path: str, wanted: str, tmp_path: Path
) -> None:
    sampler = {"OTEL_TRACES_SAMPLER": "always_off"}
    with OtlpCollector() as collector:
        results(tmp_path, **QUIET, **sampler, **{variable: collector.url + path})
    assert collector.paths == [wanted]


def test_doctor_names_a_receiver_that_takes_no_span(tmp_path: Path) -> None:
    for variables, words in (
        ({}, "the exporter logged the reason"),
        ({"OTEL_SDK_DISABLED": "true"}, "OTEL_SDK_DISABLED"),
    ):
        given = ("--otlp-endpoint", "http://127.0.0.1:9")
        code, rows = results(tmp_path, *given, **QUIET, **variables)
        assert code == 1
        assert words in rows["receiver of spans"]
        assert "not gRPC (port 4317)" in rows["receiver of spans"]
