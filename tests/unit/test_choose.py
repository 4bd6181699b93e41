"""From settings to judge and embedder."""

from __future__ import annotations

from pathlib import Path

import pytest

from rag_eval_hooks import RagEvalConfig
from rag_eval_hooks.judges import choose_embedder, choose_judge
from tests.support.optional import require


def test_the_embedder_has_a_default_model() -> None:
    require("sentence_transformers")
    embedder = choose_embedder(RagEvalConfig(embedder="sentence-transformers"))
    assert embedder is not None
    assert embedder.name == "sentence-transformers/all-MiniLM-L6-v2"


def test_nothing_is_downloaded_unasked(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """By default the local judge uses a model only where it is on disk already."""
    monkeypatch.setattr("huggingface_hub.constants.HF_HUB_CACHE", str(tmp_path))
    assert choose_embedder(RagEvalConfig()) is None


def test_an_openai_judge_brings_its_embedder() -> None:
    config = RagEvalConfig(judge="openai:gpt-4o-mini", judge_api_key="sk-1")
    judge, embedder = choose_judge(config), choose_embedder(config)
    assert embedder is not None
    assert (judge.name, embedder.name) == ("openai:gpt-4o-mini", "openai:text-embedding-3-small")
    assert "sk-1" not in repr(judge) + repr(embedder)
