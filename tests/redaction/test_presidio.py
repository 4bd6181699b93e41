"""Presidio as a rule, with a recogniser of patterns, so that no model is needed."""

from __future__ import annotations

from typing import Any

import pytest

from rag_eval_hooks.config.settings import RagEvalConfig
from rag_eval_hooks.errors import ConfigError
from rag_eval_hooks.redaction import choose_redactor
from rag_eval_hooks.redaction.own_rules import Presidio

presidio: Any = pytest.importorskip("presidio_analyzer")
_Engine: Any = presidio.nlp_engine.NlpEngine


class _NoModel(_Engine):  # type: ignore[misc]
    def load(self) -> None: ...

    def is_loaded(self) -> bool:
        return True

    def process_text(self, text: str, language: str) -> Any:
        return presidio.nlp_engine.NlpArtifacts([], [], [], [], self, language)

    def process_batch(self, texts: Any, language: str, **_: Any) -> Any:
        return ((text, self.process_text(text, language)) for text in texts)

    def is_stopword(self, word: str, language: str) -> bool:
        return False

    def is_punct(self, word: str, language: str) -> bool:
        return False

    def get_supported_entities(self) -> list[str]:
        return []

    def get_supported_languages(self) -> list[str]:
        return ["en"]


def test_presidio_entities_are_redacted() -> None:
    registry = presidio.RecognizerRegistry(supported_languages=["en"])
    pattern = presidio.Pattern("name", r"Ada Lorne", 0.9)
    registry.add_recognizer(presidio.PatternRecognizer("PERSON", patterns=[pattern]))
    engine = presidio.AnalyzerEngine(registry=registry, nlp_engine=_NoModel())
    redactor = choose_redactor(RagEvalConfig(), ["email", Presidio(engine)])
    text = redactor.session().text("question", "Ada Lorne is ada@varne.example, says Ada Lorne.")
    assert text == "<PERSON_1> is <EMAIL_1>, says <PERSON_1>."


def test_no_model_is_downloaded() -> None:
    util = pytest.importorskip("spacy.util")
    if util.is_package("en_core_web_lg"):
        pytest.skip("the model is there")
    with pytest.raises(ConfigError, match="en_core_web_lg"):
        choose_redactor(RagEvalConfig(), "presidio")
