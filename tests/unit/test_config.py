"""Settings: their sources, which source wins, and the errors of wrong values."""

from __future__ import annotations

from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st
from pydantic import SecretStr

from rag_eval_hooks import ConfigError, RagEval, RagEvalConfig
from rag_eval_hooks.config.rules import RuleSettings
from rag_eval_hooks.config.sources import merged
from rag_eval_hooks.judges import choose_embedder
from rag_eval_hooks.testing import ScriptedJudge

KEY = "sk-secret"


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


def test_an_empty_variable_is_an_unset_one(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("OPENAI_API_KEY", KEY)
    for name in RagEvalConfig.model_fields:
        monkeypatch.setenv(f"RAG_EVAL_{name.upper()}", "")
        config = RagEvalConfig()
        assert name not in config.model_fields_set
        assert config.judge_api_key is not None
        assert config.judge_api_key.get_secret_value() == KEY


def test_variables_hold_lists_and_mappings_as_text_and_kubernetes_may_add_others(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setenv("RAG_EVAL_SERVICE_PORT_HTTP", "80")
    monkeypatch.setenv("RAG_EVAL_PORT_80_TCP_ADDR", "tcp://10.0.0.1:80")
    cases: dict[str, tuple[str, object]] = {
        "METRICS": ("ragas, lexical,", ("ragas", "lexical")),
        "SINKS": ("console,jsonl:x", ("console", "jsonl:x")),
        "METRIC_RATES": ("ragas=0.1, ragas.x=1", {"ragas": 0.1, "ragas.x": 1}),
        "BUDGET": ("calls_per_day=5,path=b.db", {"calls_per_day": 5.0, "path": "b.db"}),
        "SPOOL": ("none", None),
        "CAPTURE_CONTENT": ("true", True),
        "JUDGE_HEADERS": ("v=2-1, x=y=z", {"v": SecretStr("2-1"), "x": SecretStr("y=z")}),
        "RULES": ('[{"tags": "b", "rate": 1}]', (RuleSettings(tags=("b",), rate=1),)),
    }
    for name, (text, value) in cases.items():
        monkeypatch.setenv(f"RAG_EVAL_{name}", text)
        assert getattr(RagEvalConfig(), name.lower()) == value, name


def test_shared_key_goes_to_its_own_endpoint_only(monkeypatch: pytest.MonkeyPatch) -> None:
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


def test_a_wrong_value_names_its_variable_or_file(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("RAG_EVAL_SAMPLE_RATE", "ten")
    with pytest.raises(ConfigError, match=r"sample_rate is 'ten' \(variable RAG_EVAL_SAMPLE_RATE"):
        RagEvalConfig()
    monkeypatch.delenv("RAG_EVAL_SAMPLE_RATE")
    for text in ('sample_rate = "ten"\n', "sampel_rate = 1\n"):
        with pytest.raises(ConfigError, match=r"\(file settings\.toml\)"):
            RagEvalConfig(config_file=_file(text))
    with pytest.raises(ConfigError, match=r"^judge is .* but must be above the table"):
        RagEvalConfig(config_file=_file("[judge_headers]\njudge = 'heuristic'\n"))
    for path in ("gone.toml", _file("sample_rate = = 1")):
        with pytest.raises(ConfigError, match=path):
            RagEvalConfig(config_file=path)


@given(st.sampled_from([*RagEvalConfig.model_fields]).filter(lambda name: len(name) > 6), st.data())
def test_a_misspelled_setting_stops_with_a_suggestion(name: str, data: st.DataObject) -> None:
    at = data.draw(st.integers(1, len(name) - 2).filter(lambda i: name[i] != name[i + 1]))
    wrong = name[:at] + name[at + 1] + name[at] + name[at + 2 :]
    with pytest.raises(ConfigError, match=rf"^{wrong} is .*Did you mean "):
        RagEvalConfig(**{wrong: 1})  # type: ignore[arg-type]
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv(f"RAG_EVAL_{wrong.upper()}", "1")
        with pytest.raises(ConfigError, match=rf"{wrong.upper()} is .*Did you mean RAG_EVAL_"):
            RagEval()


def test_a_malformed_mapping_is_refused_and_not_shown(monkeypatch: pytest.MonkeyPatch) -> None:
    for text in (f"Authorization: Bearer {KEY}", f"a=1,{KEY}", f"={KEY}"):
        monkeypatch.setenv("RAG_EVAL_JUDGE_HEADERS", text)
        with pytest.raises(ConfigError, match=r"judge_headers.*name=value pairs") as caught:
            RagEvalConfig()
        assert KEY not in str(caught.value)


def test_nothing_is_downloaded_unasked(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("huggingface_hub.constants.HF_HUB_CACHE", str(tmp_path))
    assert choose_embedder(RagEvalConfig()) is None
