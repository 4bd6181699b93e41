"""Settings: where they come from, which wins, and what a wrong one says."""

from __future__ import annotations

import logging
import re
from pathlib import Path

import pytest

from rag_eval_hooks import ConfigError, NotScored, RagEval, RagEvalConfig, Sample
from rag_eval_hooks.config.evaluation_groups import SamplingSettings
from rag_eval_hooks.config.fields import wants_of
from rag_eval_hooks.config.groups import LimitSettings, PrivacySettings
from rag_eval_hooks.config.removed import REMOVED
from rag_eval_hooks.config.settings import GROUPS
from rag_eval_hooks.testing import MemorySink, ScriptedJudge


@pytest.fixture(autouse=True)
def _empty_place(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    for name in ("OPENAI_API_KEY", "OPENAI_BASE_URL"):
        monkeypatch.delenv(name, raising=False)


def test_defaults_are_valid_and_need_nothing() -> None:
    """Without any setting there is a valid configuration that evaluates everything locally."""
    config = RagEvalConfig.load()
    assert (config.judge, config.sample_rate, config.metrics) == ("local", 1.0, ())


def test_argument_wins_over_environment_over_file(monkeypatch: pytest.MonkeyPatch) -> None:
    """Explicit arguments win over the environment, the environment over the file."""
    Path("rag_eval_hooks.toml").write_text("sample_rate = 0.1\nqueue_size = 7\njudge_timeout = 9\n")
    monkeypatch.setenv("RAG_EVAL_SAMPLE_RATE", "0.2")
    monkeypatch.setenv("RAG_EVAL_QUEUE_SIZE", "8")
    config = RagEvalConfig.load(sample_rate=0.3)
    assert (config.sample_rate, config.queue_size, config.judge_timeout) == (0.3, 8, 9)


def test_pyproject_table_is_read() -> None:
    """The table of pyproject.toml serves where there is no file of our own."""
    Path("pyproject.toml").write_text('[tool.rag_eval_hooks]\nmetrics = ["ragas"]\n')
    assert RagEvalConfig.load().metrics == ("ragas",)


def test_named_file_is_read(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    """RAG_EVAL_CONFIG_FILE names the file wherever it is."""
    path = tmp_path / "elsewhere.toml"
    path.write_text("max_text_chars = 3\n")
    monkeypatch.setenv("RAG_EVAL_CONFIG_FILE", str(path))
    assert RagEvalConfig.load().max_text_chars == 3


@pytest.mark.parametrize("text", ["ragas, lexical", "ragas,lexical"])
def test_lists_in_the_environment_are_separated_by_commas(
    text: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A list in an environment variable is comma-separated, spaces aside."""
    monkeypatch.setenv("RAG_EVAL_METRICS", text)
    assert RagEvalConfig.load().metrics == ("ragas", "lexical")


def test_pairs_in_the_environment(monkeypatch: pytest.MonkeyPatch) -> None:
    """A mapping in an environment variable is written as name=value pairs."""
    monkeypatch.setenv("RAG_EVAL_JUDGE_HEADERS", "api-version=2024-06-01, x=y=z")
    headers = RagEvalConfig.load().judge_headers
    values = {name: value.get_secret_value() for name, value in headers.items()}
    assert values == {"api-version": "2024-06-01", "x": "y=z"}


def test_none_can_be_said_everywhere(monkeypatch: pytest.MonkeyPatch) -> None:
    """A setting that may be absent can be switched off by a variable too."""
    monkeypatch.setenv("RAG_EVAL_SPOOL", "none")
    assert RagEvalConfig.load().spool is None


def test_tables_in_a_variable_are_json(monkeypatch: pytest.MonkeyPatch) -> None:
    """Rules in a variable mean the same as in a file; rates by metric are pairs."""
    monkeypatch.setenv("RAG_EVAL_RULES", '[{"tags": "beta", "rate": 1}]')
    monkeypatch.setenv("RAG_EVAL_TAIL", '[{"dont_know": true, "then": ["ragas"]}]')
    monkeypatch.setenv("RAG_EVAL_METRIC_RATES", "ragas=0.1,ragas.faithfulness=1")
    told = RagEvalConfig.load()
    for name in ("RULES", "TAIL", "METRIC_RATES"):
        monkeypatch.delenv(f"RAG_EVAL_{name}")
    Path("rag_eval_hooks.toml").write_text(
        '[metric_rates]\nragas = 0.1\n"ragas.faithfulness" = 1\n'
        '[[rules]]\ntags = ["beta"]\nrate = 1.0\n[[tail]]\ndont_know = true\nthen = "ragas"\n'
    )
    assert RagEvalConfig.load() == told


def test_shared_variables_give_key_and_url(monkeypatch: pytest.MonkeyPatch) -> None:
    """The OpenAI variables serve where no setting of our own says otherwise."""
    monkeypatch.setenv("OPENAI_API_KEY", "sk-shared")
    monkeypatch.setenv("OPENAI_BASE_URL", "http://shared:1/v1")
    config = RagEvalConfig.load()
    assert config.judge_api_key is not None
    assert config.judge_api_key.get_secret_value() == "sk-shared"
    assert config.judge_base_url == "http://shared:1/v1"


def test_a_shared_key_goes_to_its_own_endpoint_only(monkeypatch: pytest.MonkeyPatch) -> None:
    """The key of OpenAI's variables is never sent to an endpoint that our settings name."""
    monkeypatch.setenv("OPENAI_API_KEY", "sk-shared")
    monkeypatch.setenv("RAG_EVAL_JUDGE_BASE_URL", "http://ours:2/v1")
    config = RagEvalConfig.load()
    assert config.judge_api_key is None
    assert config.judge_base_url == "http://ours:2/v1"


@pytest.mark.parametrize("text", ["Authorization: Bearer sk-secret", "a=1,sk-secret", "=sk-secret"])
def test_a_malformed_mapping_is_refused_and_not_shown(
    text: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A text without name=value pairs is an error that does not repeat it."""
    monkeypatch.setenv("RAG_EVAL_JUDGE_HEADERS", text)
    with pytest.raises(ConfigError, match="judge_headers") as caught:
        RagEvalConfig.load()
    assert "sk-secret" not in str(caught.value)


@pytest.mark.parametrize(("value", "expected"), [("SPAN_ONLY", True), ("NO_CONTENT", False)])
def test_content_capture_follows_opentelemetry(
    value: str, expected: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The standard variable for content capture is heeded."""
    monkeypatch.setenv("OTEL_INSTRUMENTATION_GENAI_CAPTURE_MESSAGE_CONTENT", value)
    assert RagEvalConfig.load().capture_content is expected


@pytest.mark.parametrize(
    ("field", "value"),
    [
        ("sample_rate", 1.5),
        ("sample_rate", float("nan")),
        ("sample_rate", "often"),
        ("references_threshold", 3),
        ("queue_size", 0),
        ("hold_timeout", -1),
        ("hold_timeout", float("inf")),
        ("judge_base_url", "localhost:8000"),
        ("judge_base_url", "http://"),
        ("judge_base_url", "http://user:secret@host/v1"),
        ("sample_rate", True),
        ("queue_size", True),
        ("metrics", 5),
        ("capture_content", "maybe"),
    ],
)
def test_wrong_value_names_field_value_and_wants(field: str, value: object) -> None:
    """A wrong value is refused at start-up, with the field, the value and what is accepted."""
    with pytest.raises(ConfigError) as caught:
        RagEvalConfig(**{field: value})  # type: ignore[arg-type]
    assert caught.value.field == field
    assert repr(value) in str(caught.value) or field == "judge_base_url"
    assert "wants" in str(caught.value)


@pytest.mark.parametrize("name", ["sample_rat", "sampel_rate"])
def test_a_misspelt_setting_is_answered_with_the_nearest(
    name: str, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    """An unknown keyword is an error, an unknown variable a warning: it may be the application's.

    Both propose the setting that was probably meant.
    """
    with pytest.raises(ConfigError, match=rf"{name}: .*did you mean sample_rate\?"):
        RagEvalConfig(**{name: 0.1})  # type: ignore[arg-type]
    monkeypatch.setenv(f"RAG_EVAL_{name.upper()}", "0.1")
    monkeypatch.setenv("RAG_EVAL_DATASET", "golden.csv")
    with caplog.at_level(logging.WARNING, "rag_eval_hooks"):
        assert RagEvalConfig.load().sample_rate == 1.0
    warned = [record.getMessage() for record in caplog.records]
    assert any(f"{name.upper()}: " in one and "RAG_EVAL_SAMPLE_RATE?" in one for one in warned)
    assert any("RAG_EVAL_DATASET" in one and "did you mean" not in one for one in warned)


@pytest.mark.parametrize("name", REMOVED)
def test_a_removed_setting_says_what_to_do(
    name: str, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    """A setting of an older version is answered with what to do instead, wherever it stands."""
    assert name not in RagEvalConfig.model_fields
    told = rf"{name}: this setting was removed; {re.escape(REMOVED[name])}"
    with pytest.raises(ConfigError, match=told):
        RagEvalConfig(**{name: 1})  # type: ignore[arg-type]
    Path("rag_eval_hooks.toml").write_text(f"{name} = 1\n")
    with pytest.raises(ConfigError, match=told):
        RagEvalConfig.load()
    Path("rag_eval_hooks.toml").unlink()
    # A variable may be the application's own, which it would end.
    monkeypatch.setenv(f"RAG_EVAL_{name.upper()}", "1")
    with caplog.at_level(logging.WARNING, "rag_eval_hooks"):
        RagEvalConfig.load()
    assert re.match(f"RAG_EVAL_{told}".replace(name, name.upper(), 1), caplog.messages[-1])


def test_a_group_stands_for_its_settings() -> None:
    """A group in code or in a file gives the settings set in it; a setting by itself wins."""
    Path("rag_eval_hooks.toml").write_text("[sampling]\nrate_limit = { second = 5 }\n")
    config = RagEvalConfig.load(
        sampling=SamplingSettings(sample_rate=0.1, metric_rates={"ragas": 1.0}),
        privacy=PrivacySettings(redact_ids_key="sk-secret"),
        metric_rates={"ragas": 0.5},
    )
    assert (config.sample_rate, config.metric_rates) == (0.1, {"ragas": 0.5})
    assert config.rate_limit == {"second": 5}
    assert config.redact_ids_key is not None
    assert config.redact_ids_key.get_secret_value() == "sk-secret"
    with pytest.raises(ConfigError, match="sampling: got 'PrivacySettings'"):
        RagEvalConfig.load(sampling=PrivacySettings())
    with pytest.raises(ConfigError, match="sample_rat"):
        RagEvalConfig.load(sampling={"sample_rat": 0.1})


def test_a_setting_is_in_one_group() -> None:
    """Every setting stands in exactly one group, with a description and the values accepted."""
    fields = [item for group in GROUPS.values() for item in group.model_fields.items()]
    assert [name for name, _ in fields] == list(RagEvalConfig.model_fields)
    assert len({name for name, _ in fields}) == len(fields)
    assert all(field.description and wants_of(field) for _, field in fields)


def test_broken_file_is_refused() -> None:
    """A file that is no TOML is an error that names it."""
    Path("rag_eval_hooks.toml").write_text("sample_rate = = 1")
    with pytest.raises(ConfigError, match=r"rag_eval_hooks\.toml"):
        RagEvalConfig.load()


def test_settings_are_frozen() -> None:
    """A configuration never changes after start-up."""
    config = RagEvalConfig()
    with pytest.raises(ValueError, match="frozen"):
        config.sample_rate = 0.5  # type: ignore[misc]


def test_secrets_are_never_printed() -> None:
    """A configuration and its errors show no key."""
    config = RagEvalConfig(
        judge_api_key="sk-secret",
        judge_headers={"X-Key": "sk-header"},
        sinks=("phoenix:http://user:sk-sink@localhost", "jsonl:scores.jsonl"),
    )
    assert "sk-" not in repr(config)
    assert "jsonl:scores.jsonl" in repr(config)
    with pytest.raises(ConfigError) as caught:
        RagEvalConfig(judge_headers="sk-secret")  # type: ignore[arg-type]
    assert "sk-secret" not in str(caught.value)


@pytest.mark.parametrize(
    ("arguments", "field"),
    [
        ({"metrics": ["ragas.faithfulnes"]}, "metrics"),
        ({"metrics": []}, "metrics"),
        ({"metrics": 7}, "metrics"),
        ({"judge": "gpt-4o"}, "judge"),
        ({"judge": object()}, "judge"),
        ({"judge": "openai:gpt-4o-mini"}, "judge_api_key"),
        ({"sinks": ["csv:x"]}, "sinks"),
        ({"sinks": ["jsonl:/no/such/folder/x.jsonl"]}, "sinks"),
        ({"sinks": [3]}, "sinks"),
        ({"sinks": 3}, "sinks"),
        ({"sinks": [MemorySink]}, "sinks"),
        ({"judge": ScriptedJudge}, "judge"),
        ({"judge": "openai: "}, "judge"),
        ({"config": {"sample_rate": 1}}, "config"),
        ({"embedder": "minilm"}, "embedder"),
        ({"embedder": 5}, "embedder"),
        ({"token_scorer": "rouge"}, "token_scorer"),
        ({"token_scorer": object()}, "token_scorer"),
        ({"sample_rate": -1}, "sample_rate"),
        ({"embedder": "openai:"}, "embedder"),
    ],
)
def test_constructor_refuses_what_it_cannot_use(arguments: dict[str, object], field: str) -> None:
    """Everything that can be wrong in the constructor is found there, never in a request."""
    with pytest.raises(ConfigError) as caught:
        RagEval(**arguments)  # type: ignore[arg-type]
    assert caught.value.field == field


@pytest.mark.parametrize(
    ("name", "value"),
    [
        ("judge", "local:x"),
        ("embedder", "minilm"),
        ("embedder", "openai:"),
        ("token_scorer", "bert"),
        ("token_scorer", "none:x"),
    ],
)
def test_settings_refuse_names_of_no_model(name: str, value: str) -> None:
    """A judge, an embedder or a token scorer that no table has is refused in the settings."""
    with pytest.raises(ConfigError) as caught:
        RagEvalConfig(**{name: value})  # type: ignore[arg-type]
    assert caught.value.field == name


def test_settings_in_config_count_as_given_and_the_rest_is_looked_up(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """Settings of a config object win over the environment; those it leaves open do not."""
    monkeypatch.setenv("RAG_EVAL_QUEUE_SIZE", "8")
    monkeypatch.setenv("RAG_EVAL_MAX_TEXT_CHARS", "9")
    evals = RagEval(judge=ScriptedJudge(), config=RagEvalConfig(queue_size=5))
    assert (evals.config.queue_size, evals.config.max_text_chars) == (5, 9)


def test_every_setting_is_a_keyword_of_rag_eval(monkeypatch: pytest.MonkeyPatch) -> None:
    """A keyword wins over `config`, that over the environment; an unknown one is an error."""
    monkeypatch.setenv("RAG_EVAL_QUEUE_SIZE", "8")
    config = RagEvalConfig(queue_size=5, max_text_chars=6)
    evals = RagEval(
        judge=ScriptedJudge(),
        config=config,
        max_text_chars=7,
        limits=LimitSettings(sample_timeout=9.0),
    )
    chosen = evals.config
    assert (chosen.queue_size, chosen.max_text_chars, chosen.sample_timeout) == (5, 7, 9.0)
    with pytest.raises(ConfigError, match="did you mean queue_size"):
        RagEval(judge=ScriptedJudge(), queue_sise=5)  # type: ignore[call-arg]


def test_one_sink_needs_no_list(tmp_path: Path) -> None:
    """A single sink, callable or name may be given as it is."""
    for sinks in (MemorySink(), lambda _sample, _outcomes: None, f"jsonl:{tmp_path}/x.jsonl"):
        RagEval(judge=ScriptedJudge(), sinks=sinks)


def test_a_judge_of_ones_own_brings_no_embedder_of_the_settings(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """With a judge object, the settings' judge decides nothing, so tests call no network."""
    monkeypatch.setenv("RAG_EVAL_JUDGE", "openai:gpt-4o-mini")
    evals = RagEval(metrics=["ragas.answer_relevancy"], judge=ScriptedJudge())
    outcome = evals.evaluate(Sample(question="q", answer="a"))["ragas.answer_relevancy"]
    assert isinstance(outcome, NotScored)
    assert outcome.detail == "no embedder is configured; `embedder` sets one"
    evals.shutdown()
