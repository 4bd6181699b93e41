"""`rag-eval-hooks doctor` as a process, against real endpoints, good and bad ones."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.servers.judge_server import JudgeServer
from tests.servers.otlp_collector import OtlpCollector
from tests.support.doctor import KEY, doctor, openai, results


@pytest.fixture
def judge() -> Iterator[JudgeServer]:
    with JudgeServer(api_key=KEY, models=["good"]) as server:
        yield server


def test_defaults_are_well(tmp_path: Path) -> None:
    """Without any settings nothing is wrong; every setting is shown with its source."""
    code, text = doctor(tmp_path, RAG_EVAL_EMBEDDER="none")
    assert code == 0
    assert "0 failed, 0 warnings" in text
    assert "sample_rate" in text
    assert "(default)" in text
    assert "none  (variable RAG_EVAL_EMBEDDER)" in text


@pytest.mark.parametrize(
    ("settings", "status", "text"),
    [
        (
            'sample_rate = 0.0\n[[rules]]\ntags = ["a"]\nrate = 1.0\n',
            "ok",
            "0 of all requests; rules",
        ),
        ('sample_rate = 0.0\n[[tail]]\ndont_know = true\nthen = "all"\n', "ok", "tail rules may"),
        ('metrics = ["lexical"]\n[metric_rates]\nlexical = 0.1\n', "ok", "0.1 of all requests"),
        ('metrics = ["lexical"]\n[metric_rates]\nlexical = 0\nragas = 1\n', "warning", "are 0"),
    ],
)
def test_what_is_evaluated_is_told_as_it_is(
    settings: str, status: str, text: str, tmp_path: Path
) -> None:
    """Rates of metrics that are not chosen do not count; rules may evaluate what rates do not."""
    (tmp_path / "settings.toml").write_text('embedder = "none"\n' + settings)
    _code, rows = results(tmp_path, RAG_EVAL_CONFIG_FILE="settings.toml")
    assert (rows["sampling"]["status"], text in rows["sampling"]["text"]) == (status, True)


def test_everything_configured_and_well(judge: JudgeServer, tmp_path: Path) -> None:
    """Judge, receiver, sinks and redaction are tried for real, with time, tokens and shape."""
    openai_settings = openai(judge, RAG_EVAL_SINKS=f"jsonl:{tmp_path}/scores.jsonl")
    with OtlpCollector() as collector:
        code, rows = results(
            tmp_path, "--otlp-endpoint", collector.url, "--set", "redact=email", **openai_settings
        )
    assert code == 0, rows
    assert rows["judge"]["figures"]["shape"] == "json_schema"
    assert rows["judge"]["figures"]["input_tokens"] > 0
    assert rows["judge"]["figures"]["seconds"] > 0
    assert len(judge.calls()) == 1
    assert collector.span_names == ["rag-eval-hooks doctor"]
    assert rows["exporter"]["status"] == "ok"
    assert rows["clock"]["status"] == "ok"
    assert not (tmp_path / "scores.jsonl").exists()


def test_an_embedder_is_tried(judge: JudgeServer, tmp_path: Path) -> None:
    """An embedder of the same endpoint is asked; a model that is not there is a problem."""
    settings = openai(judge, RAG_EVAL_EMBEDDER="openai:good")
    _code, rows = results(tmp_path, **settings)
    assert rows["embedder"]["figures"]["dimensions"] == 64
    code, rows = results(tmp_path, **{**settings, "RAG_EVAL_EMBEDDER": "openai:gone"})
    assert code == 1
    assert "set embedder" in rows["embedder"]["advice"]


def test_sources_are_told_and_secrets_masked(judge: JudgeServer, tmp_path: Path) -> None:
    """Argument, variable, file and shared variables are told apart; no key is printed."""
    (tmp_path / "settings.toml").write_text("queue_size = 7\nmax_text_chars = 7\n")
    code, text = doctor(
        tmp_path,
        "--json",
        "--set",
        "max_text_chars=9",
        "--set",
        f"judge_headers=X-Key={KEY}",
        RAG_EVAL_CONFIG_FILE="settings.toml",
        RAG_EVAL_EMBEDDER="none",
        RAG_EVAL_JUDGE="openai:good",
        OPENAI_API_KEY=KEY,
        OPENAI_BASE_URL=judge.url,
    )
    rows = {row["name"]: row for row in json.loads(text)["settings"]}
    assert code == 0
    assert rows["max_text_chars"] == {"name": "max_text_chars", "value": 9, "source": "argument"}
    assert rows["queue_size"]["source"] == "file settings.toml"
    assert rows["judge"]["source"] == "variable RAG_EVAL_JUDGE"
    assert rows["judge_api_key"]["source"] == "variable OPENAI_API_KEY"
    assert rows["judge_api_key"]["value"] == rows["judge_headers"]["value"]["X-Key"] == "*" * 10
    assert rows["hold_timeout"]["source"] == "default"


@pytest.mark.parametrize(
    ("changes", "check", "text", "advice"),
    [
        ({"RAG_EVAL_JUDGE_API_KEY": "wrong"}, "judge", "HTTP 401", "judge_api_key"),
        ({"RAG_EVAL_JUDGE": "openai:gone"}, "judge", "HTTP 404", "judge_base_url"),
        (
            {"RAG_EVAL_JUDGE_BASE_URL": "http://127.0.0.1:9/v1"},
            "judge",
            "connection to 127.0.0.1:9 failed",
            "judge_base_url",
        ),
        ({"RAG_EVAL_METRICS": "ragas.faithfulnes"}, "metrics", "faithfulnes", "metrics"),
        ({"RAG_EVAL_SINKS": "jsonl:/no/such/x.jsonl"}, "sinks", "/no/such", "a folder that exists"),
        ({"RAG_EVAL_QUESTION_CHECKS": "gone.toml"}, "metrics", "gone.toml", "question_checks"),
        ({"RAG_EVAL_JUDGE_PRICES": "gone.toml"}, "judge_prices", "gone.toml", "mend"),
        ({"RAG_EVAL_SPOOL": "/no/such/s.db"}, "spool", "/no/such", "a folder that exists"),
        ({"RAG_EVAL_REFERENCES": "gone.jsonl"}, "references", "gone.jsonl", "mend"),
        ({"RAG_EVAL_BUDGET": "cost_per_day=1"}, "budget", "openai:good", "judge_prices"),
        (
            {"RAG_EVAL_BUDGET": "calls_per_day=1,path=/no/such/b.db"},
            "budget",
            "/no/such",
            "set budget.path",
        ),
        ({"RAG_EVAL_METRIC_RATES": "rags=1"}, "sampling", "rags", "metric_rates"),
        ({"RAG_EVAL_QUEUE_SIZE": "0"}, "settings", "queue_size", "a whole number"),
    ],
)
def test_what_is_wrong_is_a_problem_with_advice(
    changes: dict[str, str], check: str, text: str, advice: str, judge: JudgeServer, tmp_path: Path
) -> None:
    """Every mistake makes exit code 1, names what it is about and says what to do."""
    code, rows = results(tmp_path, **openai(judge, **changes))
    assert code == 1
    assert rows[check]["status"] == "failed"
    assert text in rows[check]["text"]
    assert advice in rows[check]["advice"]


def test_a_judge_without_a_key_is_a_problem(tmp_path: Path) -> None:
    """A hosted judge that has neither key nor URL is found before anything is asked."""
    code, rows = results(tmp_path, RAG_EVAL_JUDGE="openai:gpt-4o-mini", RAG_EVAL_EMBEDDER="none")
    assert code == 1
    assert "judge_api_key" in rows["judge"]["advice"]


def test_lower_rungs_are_told(tmp_path: Path) -> None:
    """An endpoint without JSON Schema is asked otherwise, and the check says how."""
    with JudgeServer(json_schema=False, tools=False) as server:
        code, rows = results(tmp_path, **openai(server))
    assert code == 0
    assert rows["judge"]["figures"]["shape"] == "json_object"
    assert rows["judge"]["figures"]["requests"] == 3


def test_a_judge_that_keeps_to_no_shape_is_a_problem(tmp_path: Path) -> None:
    """A model whose replies cannot be read is told from an endpoint that cannot be reached."""
    with JudgeServer(replies=lambda _body: "I think it is fine.") as server:
        code, rows = results(tmp_path, **openai(server))
    assert code == 1
    assert "no valid reply" in rows["judge"]["text"]
    assert "another model" in rows["judge"]["advice"]


@pytest.mark.parametrize("status", [401, 404])
def test_a_receiver_that_refuses_is_a_problem(status: int, tmp_path: Path) -> None:
    """A receiver that takes no span is a problem, with its status."""
    with OtlpCollector(status) as collector:
        variables = {"OTEL_EXPORTER_OTLP_ENDPOINT": collector.url, "RAG_EVAL_EMBEDDER": "none"}
        code, rows = results(tmp_path, **variables)
    assert code == 1
    assert f"HTTP {status}" in rows["exporter"]["text"]
    assert "4318" in rows["exporter"]["advice"]


def test_a_receiver_that_is_not_there_is_a_problem(tmp_path: Path) -> None:
    """Nothing listens at the port: said so, and quickly."""
    endpoint = "http://127.0.0.1:9"
    code, rows = results(tmp_path, "--otlp-endpoint", endpoint, RAG_EVAL_EMBEDDER="none")
    assert code == 1
    assert "cannot be reached" in rows["exporter"]["text"]


@pytest.mark.parametrize(
    "arguments",
    [["--set", "x"], ["--timeout", "0"], ["--spans", "gone"], ["--otlp-endpoint", "h:1"]],
)
def test_wrong_arguments_are_wrong_usage(arguments: list[str], tmp_path: Path) -> None:
    """Arguments that the command cannot use end with code 2."""
    assert doctor(tmp_path, *arguments)[0] == 2


ZERO_CODE: list[tuple[dict[str, str], str, str]] = [
    ({"OTEL_EXPORTER_OTLP_PROTOCOL": "http/json"}, "failed", "http/json"),
    ({"OTEL_TRACES_EXPORTER": "zipkin_of_nobody"}, "failed", "zipkin_of_nobody"),
    ({"OTEL_METRICS_EXPORTER": "otlp,gone"}, "failed", "gone"),
    ({"OTEL_LOGS_EXPORTER": "none", "OTEL_TRACES_EXPORTER": "none"}, "warning", "no span leaves"),
    ({"OTEL_EXPORTER_OTLP_ENDPOINT": "http://127.0.0.1:4318"}, "warning", "http/protobuf"),
    (
        {
            "OTEL_EXPORTER_OTLP_ENDPOINT": "http://127.0.0.1:4317",
            "OTEL_EXPORTER_OTLP_TRACES_PROTOCOL": "http/protobuf",
        },
        "warning",
        "OTEL_EXPORTER_OTLP_PROTOCOL=grpc",
    ),
    ({"OTEL_PYTHON_DISABLED_INSTRUMENTATIONS": "flask, rag_eval_hooks"}, "failed", "turns it off"),
    ({"OTEL_SDK_DISABLED": "true"}, "failed", "unset OTEL_SDK_DISABLED"),
    ({}, "ok", "captures"),
    ({"OTEL_TRACES_EXPORTER": "console", "OTEL_METRICS_EXPORTER": "none"}, "ok", "captures"),
]


@pytest.mark.parametrize(("variables", "status", "words"), ZERO_CODE)
def test_what_breaks_zero_code_is_said(
    tmp_path: Path, variables: dict[str, str], status: str, words: str
) -> None:
    """Protocol, exporters, port and switches of `opentelemetry-instrument`, with what to set."""
    pytest.importorskip("opentelemetry.distro")
    _, text = doctor(tmp_path, "--json", **variables)
    rows = [row for row in json.loads(text)["results"] if row["check"] == "zero-code"]
    assert any(row["status"] == status and words in row["text"] + row["advice"] for row in rows)
