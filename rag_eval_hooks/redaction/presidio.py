"""A rule that finds names, places and more with Microsoft's Presidio."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any

from rag_eval_hooks.errors import ConfigError
from rag_eval_hooks.redaction.redactor import Match

_MODEL = "en_core_web_lg"


class Presidio:
    """Finds the entities that a Presidio analyzer recognizes.

    A language model reads every text, so this rule is much slower than the other rules. The default
    entities exclude dates and places, because judges need them for most answers.

    Args:
        analyzer: An `AnalyzerEngine`. The default engine needs its spaCy model on disk.
        language: Language code of the texts.
        entities: Names of Presidio's entities.
        threshold: Minimum confidence, 0 to 1.

    Raises:
        ConfigError: No analyzer is given, and the default model is not on disk.
        ImportError: `presidio-analyzer` or spaCy is not installed.
    """

    def __init__(
        self,
        analyzer: Any = None,
        *,
        language: str = "en",
        entities: Sequence[str] = ("PERSON", "EMAIL_ADDRESS", "PHONE_NUMBER", "CREDIT_CARD"),
        threshold: float = 0.5,
    ) -> None:
        self._analyzer = _default_analyzer() if analyzer is None else analyzer
        self._language = language
        self._entities = list(entities)
        self._threshold = threshold

    def matches(self, text: str) -> Iterator[Match]:
        for found in self._analyzer.analyze(
            text=text,
            language=self._language,
            entities=self._entities,
            score_threshold=self._threshold,
        ):
            yield Match(found.start, found.end, str(found.entity_type))


def _default_analyzer() -> Any:
    try:
        from presidio_analyzer import AnalyzerEngine
        from spacy.util import is_package
    except ImportError as missing:
        raise ImportError(
            'redact="presidio" needs Presidio and a spaCy model. Run: pip install presidio-analyzer'
        ) from missing
    if not is_package(_MODEL):
        # Presidio would download a missing model.
        wants = f"the spaCy model {_MODEL} on disk (python -m spacy download {_MODEL})"
        raise ConfigError("redact", "presidio", wants)
    return AnalyzerEngine()
