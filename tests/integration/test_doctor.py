"""`rag-eval-hooks doctor` as a process, against real endpoints, good and bad ones."""

from __future__ import annotations

import json
import time
import uuid
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from rag_eval_hooks import JsonlSink, RagEval, Sample
from rag_eval_hooks.decision import Share
from rag_eval_hooks.incidents import Incidents
from rag_eval_hooks.judges.calls.budget import Budget
from rag_eval_hooks.judges.calls.budget_store import SqliteStore
from rag_eval_hooks.sample import Context
from rag_eval_hooks.sampling.sampler import position
from rag_eval_hooks.spool.codec import sample_to_text
from rag_eval_hooks.spool.file import SpoolFile
from rag_eval_hooks.spool.folder import make_folder
from rag_eval_hooks.testing import ScriptedJudge
from tests.servers.judge_server import JudgeServer
from tests.servers.otlp_collector import OtlpCollector
from tests.support.command_line import run_command
from tests.support.evaluation import faithful_judge

KEY = "sk-canary-0123456789abcdef"
TRACE = "0af7651916cd43dd8448eb211c80319c"


@pytest.fixture
def judge() -> Iterator[JudgeServer]:
    with JudgeServer(api_key=KEY, models=["good"]) as server:
        yield server


def doctor(folder: Path, *arguments: str, **variables: str) -> tuple[int, str]:
    done = run_command(
        folder,
        "doctor",
        "--timeout",
        "30",
        *arguments,
        variables={"HF_HUB_OFFLINE": "1", **variables},
    )
    assert "Traceback" not in done.err
    assert KEY not in done.out + done.err
    return done.code, done.out + done.err


def results(folder: Path, *arguments: str, **variables: str) -> tuple[int, dict[str, Any]]:
    code, text = doctor(folder, "--json", *arguments, **variables)
    document = json.loads(text)
    assert document["ok"] == (code == 0)
    return code, {row["check"]: row for row in document["results"]}


def openai(server: JudgeServer, **changes: str) -> dict[str, str]:
    return {
        "RAG_EVAL_JUDGE": "openai:good",
        "RAG_EVAL_JUDGE_BASE_URL": server.url,
        "RAG_EVAL_JUDGE_API_KEY": KEY,
        "RAG_EVAL_EMBEDDER": "none",
        **changes,
    }


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
    (tmp_path / "rag_eval_hooks.toml").write_text('embedder = "none"\n' + settings)
    _code, rows = results(tmp_path)
    assert (rows["sampling"]["status"], text in rows["sampling"]["text"]) == (status, True)


def test_everything_configured_and_well(judge: JudgeServer, tmp_path: Path) -> None:
    """Judge, receiver, sinks and redaction are tried for real, with time, tokens and shape."""
    (tmp_path / "rag_eval_hooks.toml").write_text(f'sinks = ["jsonl:{tmp_path}/scores.jsonl"]\n')
    with OtlpCollector() as collector:
        code, rows = results(
            tmp_path, "--otlp-endpoint", collector.url, "--set", "redact=email", **openai(judge)
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
    (tmp_path / "rag_eval_hooks.toml").write_text("queue_size = 7\nmax_text_chars = 7\n")
    code, text = doctor(
        tmp_path,
        "--json",
        "--set",
        "max_text_chars=9",
        "--set",
        f"judge_headers=X-Key={KEY}",
        RAG_EVAL_EMBEDDER="none",
        RAG_EVAL_JUDGE="openai:good",
        OPENAI_API_KEY=KEY,
        OPENAI_BASE_URL=judge.url,
    )
    rows = {row["name"]: row for row in json.loads(text)["settings"]}
    assert code == 0
    assert rows["max_text_chars"] == {"name": "max_text_chars", "value": 9, "source": "argument"}
    assert rows["queue_size"]["source"] == "file rag_eval_hooks.toml"
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
        ({"RAG_EVAL_REDACT_PATTERNS": "a=("}, "redaction", "redact_patterns", "redact_patterns"),
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
    assert "variants=single_calls" in rows["judge"]["advice"]


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


@pytest.mark.parametrize("arguments", [["--set", "x"], ["--timeout", "0"], ["--spans", "gone"]])
def test_wrong_arguments_are_wrong_usage(arguments: list[str], tmp_path: Path) -> None:
    """Arguments that the command cannot use end with code 2."""
    assert doctor(tmp_path, *arguments)[0] == 2


def in_a_spool(folder: Path, **told: Any) -> tuple[Sample, SpoolFile]:
    """A sample in a file of a spool whose owner lives."""
    sample = Sample(question="q", contexts=(Context(text="c"),), answer="a", **told)
    file = SpoolFile.create(make_folder(folder))
    file.insert([(sample_to_text(sample), 0.25, "rule:vip", time.time())])
    return sample, file


def left_in_a_spool(folder: Path, **told: Any) -> Sample:
    """A sample that its process left behind."""
    sample, file = in_a_spool(folder, **told)
    file.close()
    return sample


def test_a_spool_is_looked_at(tmp_path: Path) -> None:
    """One that is whole and private is well, with what is in it; nothing of it is changed."""
    folder = tmp_path / "spool"
    results(tmp_path, RAG_EVAL_SPOOL=str(folder))
    assert not folder.exists()
    left_in_a_spool(folder)
    (path,) = folder.glob("*.sqlite")
    before = path.read_bytes()
    code, text = doctor(tmp_path, RAG_EVAL_SPOOL=str(folder))
    assert code == 0
    assert f"ok       spool: {folder} is whole, schema 2, 1 samples wait in it" in text
    assert "MB free on its disk" in text
    assert path.read_bytes() == before


def test_a_spool_that_others_can_read_is_a_warning(tmp_path: Path) -> None:
    """The samples in it are texts of users: the mode is told, and how to mend it."""
    folder = tmp_path / "spool"
    left_in_a_spool(folder)
    (path,) = folder.glob("*.sqlite")
    path.chmod(0o644)
    folder.chmod(0o755)
    code, text = doctor(tmp_path, RAG_EVAL_SPOOL=str(folder))
    assert code == 0
    assert "warning  spool:" in text
    assert "mode 644" in text
    assert f"chmod 600 {path}" in text


def test_a_damaged_spool_has_failed(tmp_path: Path) -> None:
    """A page that was overwritten is found, and it is said what to do."""
    folder = tmp_path / "spool"
    left_in_a_spool(folder, metadata={"long": "x" * 100_000})
    (path,) = folder.glob("*.sqlite")
    with path.open("r+b") as file:
        for page in range(1, path.stat().st_size // 4096):
            file.seek(4096 * page + 8)
            file.write(b"\xff" * 200)
    code, text = doctor(tmp_path, RAG_EVAL_SPOOL=str(folder))
    assert code == 1
    assert "failed   spool:" in text
    assert "renames it" in text or "renamed by the next process" in text


def test_golden_questions_are_counted(tmp_path: Path) -> None:
    """Equal questions are told, and whether they have different answers."""
    path = tmp_path / "golden.jsonl"
    rows = [("When?", "At nine."), ("when? ", "At nine."), ("Where?", "Here.")]
    path.write_text("".join(json.dumps({"question": q, "reference": r}) + "\n" for q, r in rows))
    _code, told = results(tmp_path, RAG_EVAL_REFERENCES=str(path), RAG_EVAL_EMBEDDER="none")
    assert told["references"]["figures"] == {"questions": 2, "duplicates": 1}
    assert told["references"]["status"] == "warning"
    assert "another answer" not in told["references"]["text"]
    with path.open("a") as file:
        file.write(json.dumps({"question": "WHERE?", "reference": "There."}) + "\n")
    _code, told = results(tmp_path, RAG_EVAL_REFERENCES=str(path), RAG_EVAL_EMBEDDER="none")
    assert "1 have another answer" in told["references"]["text"]
    code, told = results(
        tmp_path,
        RAG_EVAL_REFERENCES=str(path),
        RAG_EVAL_REFERENCES_THRESHOLD="0.9",
        RAG_EVAL_EMBEDDER="none",
    )
    assert code == 1
    assert "embedder" in told["references"]["advice"]


def test_a_budget_is_looked_at(tmp_path: Path) -> None:
    """A budget's file is reported with what is spent; a file of another program is a failure."""
    path = tmp_path / "budget.db"
    settings = {"RAG_EVAL_BUDGET": f"calls_per_day=5,path={path}"}
    _code, told = results(tmp_path, RAG_EVAL_EMBEDDER="none", **settings)
    assert "not there yet" in told["budget"]["text"]
    assert not path.exists()
    shared = Budget({"calls_per_day": 5}, SqliteStore(path), incidents=Incidents())
    shared.reserve(1).settle(1, 1)
    shared.close()
    code, told = results(tmp_path, RAG_EVAL_EMBEDDER="none", **settings)
    assert code == 0
    assert "1 of 5 calls this day" in told["budget"]["text"]
    path.write_text("no database" * 100)
    code, told = results(tmp_path, RAG_EVAL_EMBEDDER="none", **settings)
    assert code == 1
    assert "no call is sent" in told["budget"]["text"]


def test_what_waits_in_the_spool_is_explained(tmp_path: Path) -> None:
    """A sample in the spool is pending: how long, why it was chosen, and that nobody has it."""
    path = tmp_path / "spool"
    first = left_in_a_spool(path, trace_id=TRACE)
    second = left_in_a_spool(path, trace_id=TRACE)
    code, text = doctor(tmp_path, "--trace", TRACE.upper(), RAG_EVAL_SPOOL=str(path))
    assert code == 0
    assert all(f"sample {one.sample_id}: pending" in text for one in (first, second))
    assert "chosen by rule:vip with probability 0.25" in text
    assert "no process has it now" in text
    _code, text = doctor(tmp_path, "--trace", second.sample_id, RAG_EVAL_SPOOL=str(path))
    assert second.sample_id in text
    assert first.sample_id not in text


@pytest.mark.parametrize(
    "written", [TRACE.upper(), f"0x{TRACE}", f" {TRACE} ", str(uuid.UUID(TRACE)), "sample"]
)
def test_both_samples_of_a_trace_are_explained(written: str, tmp_path: Path) -> None:
    """A trace's id in any form gives each of its samples; a sample's id gives that one."""
    path = tmp_path / "scores.jsonl"
    texts = (Context(text="c"),)
    samples = [
        Sample(question="q", contexts=texts, answer="a", trace_id=TRACE),
        Sample(question="q", answer="a", trace_id=TRACE),
    ]
    offered(path, faithful_judge(), *samples)
    name = samples[1].sample_id.upper() if written == "sample" else written
    _code, text = doctor(tmp_path, "--trace", name, "--set", f"sinks=jsonl:{path}")
    assert ("ragas.faithfulness = 1" in text) is (written != "sample")
    assert "missing_input" in text


def span(trace_id: str, told: dict[str, str], *links: str) -> dict[str, Any]:
    attributes = [{"key": key, "value": {"stringValue": value}} for key, value in told.items()]
    linked = [{"traceId": link, "spanId": "c" * 16} for link in links]
    return {"traceId": trace_id, "name": "x", "attributes": attributes, "links": linked}


@pytest.mark.parametrize(
    ("told", "words"),
    [
        (
            {"status": "sampled_out", "sampled_by": "rule:bots", "sample_rate": "0.1"},
            "sample_rate, a",
        ),
        ({"status": "dropped", "reason": "interrupted"}, "its graph waited for somebody"),
        ({"status": "dropped", "reason": "closed"}, "the reader left the stream"),
        ({"status": "dropped", "reason": "cancelled"}, "the request was cancelled"),
        ({"status": "error", "unscored": "ragas.faithfulness"}, "rag.eval.unscored names them"),
        ({}, "nothing was retrieved in it"),
    ],
)
def test_each_fate_on_a_span_has_its_advice(
    told: dict[str, str], words: str, tmp_path: Path
) -> None:
    """Each status of a RAG span is put in words; a trace without a RAG span retrieved nothing."""
    spans = tmp_path / "traces.jsonl"
    attributes = {f"rag.eval.{key}": value for key, value in told.items()}
    scopes = [{"spans": [span(TRACE, attributes), span("e" * 32, {"rag.eval.status": "ok"})]}]
    spans.write_text(json.dumps({"resourceSpans": [{"scopeSpans": scopes}]}) + "\n")
    _code, text = doctor(tmp_path, "--trace", TRACE, "--spans", str(spans))
    assert words in text


@pytest.mark.parametrize("trace_id", [TRACE, "e" * 32], ids=["child", "trace"])
def test_a_late_score_is_reported(trace_id: str, tmp_path: Path) -> None:
    """Scores that came after the RAG span had ended are on the span below it, or linked to it."""
    spans = tmp_path / "traces.jsonl"
    late = {"rag.eval.status": "timeout"}
    scored = {
        "gen_ai.operation.name": "evaluation",
        "evaluations.0.evaluation.name": "ragas.faithfulness",
    }
    scopes = [{"spans": [span(TRACE, late), span(trace_id, scored, TRACE)]}]
    spans.write_text(json.dumps({"resourceSpans": [{"scopeSpans": scopes}]}) + "\n")
    _code, text = doctor(tmp_path, "--trace", TRACE, "--spans", str(spans))
    assert "they are on the evaluation span" in text
    assert "on the evaluation span: evaluations.0.evaluation.name = ragas" in text


def test_the_sampler_goes_by_the_rates_of_the_metrics(tmp_path: Path) -> None:
    """A rate of all metrics takes the place of sample_rate; who is left out is named."""
    out = next(
        key for key in (f"{n:032x}" for n in range(100)) if not Share(0.5).includes(position(key))
    )
    arguments = ["--trace", out, "--set", "metrics=ragas.faithfulness,lexical.keyword_coverage"]
    _code, text = doctor(tmp_path, *arguments, "--set", "metric_rates=all=0.5")
    assert "at probability 0.5 (ratio) this id is left out" in text
    _code, text = doctor(tmp_path, *arguments, "--set", "metric_rates=ragas=0.5")
    assert "at probability 1 (ratio) this id is taken, but for 1 of 2 metrics: ragas.f" in text


def offered(path: Path, judge_: ScriptedJudge, *samples: Sample) -> RagEval:
    evals = RagEval(["ragas.faithfulness"], judge_, sinks=[JsonlSink(path)])
    for sample in samples:
        evals.offer(sample)
    evals.shutdown()
    return evals


def test_a_trace_in_the_file_is_explained(tmp_path: Path) -> None:
    """A file of scores outlives the process and says what a trace got, or why not."""
    path = tmp_path / "scores.jsonl"
    sample = Sample(question="q", contexts=("c",), answer="a", trace_id=TRACE)  # type: ignore[arg-type]
    offered(path, faithful_judge(), sample)
    code, text = doctor(tmp_path, "--trace", TRACE, "--set", f"sinks=jsonl:{path}")
    assert code == 0
    assert "ragas.faithfulness = 1" in text
    bare = Sample(question="q", answer="a", trace_id="f" * 32)
    offered(path, faithful_judge(), bare)
    _code, text = doctor(tmp_path, "--trace", "f" * 32, "--set", f"sinks=jsonl:{path}")
    assert "missing_input" in text


def test_a_trace_on_a_span_is_explained(tmp_path: Path) -> None:
    """A file of spans says what the RAG span says."""
    told = {"rag.eval.status": "dropped", "rag.eval.reason": "queue_full"}
    attributes = [{"key": key, "value": {"stringValue": value}} for key, value in told.items()]
    span = {"traceId": TRACE, "name": "invoke_workflow x", "attributes": attributes}
    request = {"resourceSpans": [{"scopeSpans": [{"spans": [span]}]}]}
    spans = tmp_path / "traces.jsonl"
    spans.write_text(json.dumps(request) + "\n{cut")
    _code, text = doctor(tmp_path, "--trace", TRACE, "--spans", str(spans))
    assert "queue_full" in text
    assert "raise queue_size" in text.replace("\n", " ")


def test_a_trace_of_which_nothing_is_left_is_explained_by_the_sampler(tmp_path: Path) -> None:
    """Without files the sampler's decision is computed, and what else is possible is said."""
    keys = [f"{number:032x}" for number in range(100)]
    out = next(key for key in keys if not Share(0.5).includes(position(key)))
    taken = next(key for key in keys if Share(0.5).includes(position(key)))
    _code, text = doctor(tmp_path, "--trace", out, "--set", "sample_rate=0.5")
    assert "is left out" in text
    _code, text = doctor(tmp_path, "--trace", taken, "--set", "sample_rate=0.5")
    assert "is taken" in text
    assert "evals.explain" in text


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
