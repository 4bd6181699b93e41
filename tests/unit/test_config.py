"""Settings: their sources, which source wins, and the errors of wrong values."""

from __future__ import annotations

import tempfile
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from pydantic import SecretStr

from rag_eval_hooks import ConfigError, NotScored, RagEval, RagEvalConfig, Sample
from rag_eval_hooks.config.rules import RuleSettings, TailSettings
from rag_eval_hooks.config.sources import merged
from rag_eval_hooks.testing import MemorySink, ScriptedJudge

KEY = "sk-secret"
TAIL = (TailSettings(dont_know=True, then=("r",)),)
HEADERS = {"v": "2024-06-01", "x": "y=z"}


@pytest.fixture(autouse=True)
def _empty_place(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    for name in ("OPENAI_API_KEY", "OPENAI_BASE_URL"):
        monkeypatch.delenv(name, raising=False)


def _file(text: str) -> str:
    Path("settings.toml").write_text(text)
    return "settings.toml"


def test_arguments_win_over_variables_over_the_file(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("RAG_EVAL_SAMPLE_RATE", "0.2")
    monkeypatch.setenv("RAG_EVAL_QUEUE_SIZE", "8")
    path = _file("sample_rate = 0.1\nqueue_size = 7\njudge_timeout = 9\n")
    config = RagEvalConfig(config_file=path, sample_rate=0.3)
    assert (config.sample_rate, config.queue_size, config.judge_timeout) == (0.3, 8, 9)
    own = RagEval(judge=ScriptedJudge(), config=config, queue_size=9).config
    assert (own.sample_rate, own.queue_size, own.judge_timeout) == (0.3, 9, 9)
    assert merged(RagEvalConfig, {"sample_rate": 0.3}, path)[1] == {
        "sample_rate": "argument",
        "queue_size": "variable RAG_EVAL_QUEUE_SIZE",
        "judge_timeout": "file settings.toml",
    }


def test_a_mapping_of_a_stronger_source_replaces_the_whole_mapping(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setenv("RAG_EVAL_THRESHOLDS", "ragas.faithfulness=0.8")
    path = _file('[thresholds]\n"ragas.context_recall" = 0.5\n')
    assert RagEvalConfig(config_file=path).thresholds == {"ragas.faithfulness": 0.8}
    assert RagEvalConfig(config_file=path, thresholds={}).thresholds == {}


def test_the_variable_names_the_file_and_no_other_file_is_read(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    for name in ("pyproject.toml", "rag_eval_hooks.toml"):
        Path(name).write_text("this is = = no TOML")
    assert not RagEval(judge=ScriptedJudge()).config.model_fields_set
    monkeypatch.setenv("RAG_EVAL_CONFIG_FILE", _file("max_text_chars = 3\n"))
    assert RagEval(judge=ScriptedJudge()).config.max_text_chars == 3
    other = Path("other.toml")
    other.write_text("max_text_chars = 4\n")
    assert RagEval(judge=ScriptedJudge(), config_file=other).config.max_text_chars == 4


@pytest.mark.parametrize("text", ["sample_rate = = 1", None])
def test_a_file_that_cannot_be_read_is_refused(text: str | None) -> None:
    path = "gone.toml" if text is None else _file(text)
    with pytest.raises(ConfigError, match=path) as caught:
        RagEvalConfig(config_file=path)
    assert caught.value.field == "config_file"


@pytest.mark.parametrize("name", [*RagEvalConfig.model_fields])
def test_an_empty_variable_is_an_unset_one(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv(f"RAG_EVAL_{name.upper()}", "")
    monkeypatch.setenv("OPENAI_API_KEY", KEY)
    config = RagEvalConfig()
    assert name not in config.model_fields_set
    assert config.judge_api_key is not None
    assert config.judge_api_key.get_secret_value() == KEY


@pytest.mark.parametrize(
    ("name", "text", "value"),
    [
        ("METRICS", "ragas", ("ragas",)),
        ("METRICS", "ragas, lexical,", ("ragas", "lexical")),
        ("SINKS", "console,jsonl:x", ("console", "jsonl:x")),
        ("REDACT", "email, ip", ("email", "ip")),
        ("REDACT_REGIONS", "DE", ("DE",)),
        (
            "METRIC_RATES",
            "ragas=0.1, ragas.faithfulness=1",
            {"ragas": 0.1, "ragas.faithfulness": 1},
        ),
        ("BUDGET", "calls_per_day=5,path=b.db", {"calls_per_day": 5.0, "path": "b.db"}),
        ("SPOOL", "none", None),
        ("CAPTURE_CONTENT", "true", True),
        ("JUDGE_HEADERS", "v=2024-06-01, x=y=z", {k: SecretStr(v) for k, v in HEADERS.items()}),
        ("RULES", '[{"tags": "b", "rate": 1}]', (RuleSettings(tags=("b",), rate=1),)),
        (
            "TAIL",
            '[{"dont_know": true, "then": "r"}]',
            TAIL,
        ),
    ],
)
def test_variables_hold_lists_and_mappings_as_text(
    name: str, text: str, value: object, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv(f"RAG_EVAL_{name}", text)
    assert getattr(RagEvalConfig(), name.lower()) == value


@given(st.text(min_size=1).filter(lambda text: "\n" not in text))
def test_string_for_a_list_setting_is_one_item(text: str) -> None:
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder, "settings.toml")
        path.write_text('sinks = "jsonl:a,b"\nredact = "email"\n')
        config = RagEvalConfig(config_file=path)
    assert (config.sinks, config.redact) == (("jsonl:a,b",), ("email",))
    assert RagEvalConfig(sinks=text, metrics=text) == RagEvalConfig(sinks=[text], metrics=(text,))


def test_shared_key_goes_to_its_own_endpoint_only(monkeypatch: pytest.MonkeyPatch) -> None:
    """Neither a variable nor a later argument sends the key of OpenAI to another endpoint."""
    monkeypatch.setenv("OPENAI_API_KEY", KEY)
    monkeypatch.setenv("OPENAI_BASE_URL", "http://shared:1/v1")
    config, ours = RagEvalConfig(), "http://ours:2/v1"
    assert config.judge_api_key is not None
    assert config.judge_api_key.get_secret_value() == KEY
    assert config.judge_base_url == "http://shared:1/v1"
    evals = RagEval(judge=ScriptedJudge(), config=config, judge_base_url=ours)
    assert (evals.config.judge_api_key, evals.config.judge_base_url) == (None, ours)
    monkeypatch.setenv("RAG_EVAL_JUDGE_BASE_URL", ours)
    assert RagEvalConfig().judge_api_key is None


WRONG: list[tuple[str, Any]] = [
    ("sample_rate", 1.5),
    ("sample_rate", float("nan")),
    ("sample_rate", "often"),
    ("sample_rate", True),
    ("queue_size", 0),
    ("queue_size", True),
    ("hold_timeout", -1),
    ("hold_timeout", float("inf")),
    ("metrics", 5),
    ("capture_content", "maybe"),
    ("redact", "emails"),
    ("redact_regions", "de"),
    ("rate_limit", {"hour": 1}),
    ("budget", {"calls_per_hours": 1}),
    ("judge", "heuristic:x"),
    ("embedder", "minilm"),
    ("embedder", "openai:"),
    ("token_scorer", "none:x"),
    ("run_on", "process"),
    ("judge_base_url", "localhost:8000"),
    ("judge_base_url", "http://"),
]


@pytest.mark.parametrize(("field", "value"), WRONG)
def test_a_wrong_value_names_setting_value_and_fix(field: str, value: object) -> None:
    with pytest.raises(ConfigError) as caught:
        RagEvalConfig(**{field: value})  # type: ignore[arg-type]
    assert caught.value.field == field
    assert f"{field} is {value!r}, but must be {caught.value.wants}" in str(caught.value)


def test_a_wrong_value_names_its_variable_or_file(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("RAG_EVAL_SAMPLE_RATE", "ten")
    with pytest.raises(ConfigError, match=r"sample_rate is 'ten' \(variable RAG_EVAL_SAMPLE_RATE"):
        RagEvalConfig()
    monkeypatch.delenv("RAG_EVAL_SAMPLE_RATE")
    for text in ('sample_rate = "ten"\n', "sampel_rate = 1\n"):
        with pytest.raises(ConfigError, match=r"\(file settings\.toml\)"):
            RagEvalConfig(config_file=_file(text))


@pytest.mark.parametrize(
    ("tables", "path", "words"),
    [
        ({"rules": [{"rate": 1}, {"rate": 5}]}, "rules[1].rate", "from 0 to 1"),
        ({"rules": [{"tag": "beta", "rate": 1}]}, "rules[0].tag", "rules[0].tags?"),
        ({"rules": [{"tags": "beta"}]}, "rules[0].rate", "is None"),
        ({"rules": [{"rate": 1, "question": "("}]}, "rules[0].question", "unterminated"),
        ({"tail": [{"then": "ragas"}]}, "tail[0]", "exactly one condition"),
        ({"tail": [{"then": (), "thumbs_down": True}]}, "tail[0].then", "one or more"),
        ({"tail": 5}, "tail", "tables"),
        ({"rules": ["beta"]}, "rules[0]", "a rate"),
        ({"rules": [{"rate": 1, "error": False}]}, "rules[0].error", "true, or"),
        ({"metric_rates": {"ragas": 1.5}}, "metric_rates", "from 0 to 1"),
    ],
)
def test_a_wrong_table_names_the_path_inside(tables: dict[str, Any], path: str, words: str) -> None:
    with pytest.raises(ConfigError) as caught:
        RagEvalConfig(**tables)
    assert caught.value.field == path
    assert words in str(caught.value)


@given(st.sampled_from([*RagEvalConfig.model_fields]).filter(lambda name: len(name) > 6), st.data())
def test_a_misspelled_setting_stops_with_a_suggestion(name: str, data: st.DataObject) -> None:
    """Two letters that changed places name the setting that was meant, wherever they stand."""
    at = data.draw(st.integers(1, len(name) - 2).filter(lambda i: name[i] != name[i + 1]))
    wrong = name[:at] + name[at + 1] + name[at] + name[at + 2 :]
    with pytest.raises(ConfigError, match=rf"^{wrong} is .*did you mean "):
        RagEvalConfig(**{wrong: 1})  # type: ignore[arg-type]
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv(f"RAG_EVAL_{wrong.upper()}", "1")
        with pytest.raises(ConfigError, match=rf"{wrong.upper()} is .*did you mean RAG_EVAL_"):
            RagEval()


@pytest.mark.parametrize(
    "name", ["SERVICE_HOST", "SERVICE_PORT_HTTP", "PORT", "PORT_80_TCP", "DB_PORT_80_TCP_ADDR"]
)
def test_variables_of_kubernetes_are_ignored(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """A pod that runs beside a Service `rag-eval` starts."""
    monkeypatch.setenv(f"RAG_EVAL_{name}", "tcp://10.0.0.1:80")
    RagEvalConfig()


@pytest.mark.parametrize(
    ("name", "text"),
    [
        ("judge_headers", f"Authorization: Bearer {KEY}"),
        ("judge_headers", f"a=1,{KEY}"),
        ("judge_headers", f"={KEY}"),
        ("sink_keys", KEY),
    ],
)
def test_a_malformed_mapping_is_refused_and_not_shown(
    name: str, text: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv(f"RAG_EVAL_{name.upper()}", text)
    with pytest.raises(ConfigError, match=f"{name}.*name=value pairs") as caught:
        RagEvalConfig()
    assert KEY not in str(caught.value)


@pytest.mark.parametrize(
    ("arguments", "field"),
    [
        ({"metrics": ["ragas.faithfulnes"]}, "metrics"),
        ({"metrics": []}, "metrics"),
        ({"judge": "gpt-4o"}, "judge"),
        ({"judge": object()}, "judge"),
        ({"judge": ScriptedJudge}, "judge"),
        ({"judge": "openai:gpt-4o-mini"}, "judge_api_key"),
        ({"sinks": ["csv:x"]}, "sinks"),
        ({"sinks": ["jsonl:/no/such/folder/x.jsonl"]}, "sinks"),
        ({"sinks": [3]}, "sinks"),
        ({"sinks": [MemorySink]}, "sinks"),
        ({"sinks": lambda: None}, "sinks"),
        ({"sinks": [lambda a, b, c: None]}, "sinks"),
        ({"sinks": "nowhere:http://localhost"}, "sinks"),
        ({"sinks": "jsonl:"}, "sinks"),
        ({"sinks": "phoenix:"}, "sinks"),
        ({"sinks": "phoenix:localhost:6006"}, "sinks"),
        ({"sinks": f"mlflow:http://user:{KEY}@localhost"}, "sinks"),
        ({"sinks": f"mlflow:user:{KEY}@localhost"}, "sinks"),
        ({"sinks": "langfuse:http://localhost:3000"}, "sink_keys"),
        ({"sinks": "langfuse:http://x", "sink_keys": {"langfuse": KEY}}, "sink_keys"),
        ({"sink_keys": {"other": KEY}}, "sink_keys"),
        ({"config": {"sample_rate": 1}}, "config"),
        ({"embedder": 5}, "embedder"),
        ({"token_scorer": object()}, "token_scorer"),
        ({"sample_rate": -1}, "sample_rate"),
        ({"queue_sise": 5}, "queue_sise"),
    ],
)
def test_constructor_with_an_unusable_argument_raises(
    arguments: dict[str, Any], field: str
) -> None:
    with pytest.raises(ConfigError) as caught:
        RagEval(**arguments)
    assert caught.value.field == field
    assert KEY not in str(caught.value)


def test_a_judge_of_ones_own_brings_no_embedder_of_the_settings(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """With a judge object, the settings' judge decides nothing, so tests call no network."""
    monkeypatch.setenv("RAG_EVAL_JUDGE", "openai:gpt-4o-mini")
    evals = RagEval(metrics=["ragas.answer_relevancy"], judge=ScriptedJudge())
    outcome = evals.evaluate(Sample(question="q", answer="a"))["ragas.answer_relevancy"]
    assert isinstance(outcome, NotScored)
    assert outcome.detail == "no embedder is configured; set `embedder`"
    evals.shutdown()
