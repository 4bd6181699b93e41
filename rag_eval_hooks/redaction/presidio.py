"""A rule that finds names, places and more with Microsoft's Presidio."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any, Final

from rag_eval_hooks.errors import ConfigError
from rag_eval_hooks.redaction.redactor import Match

_MODEL: Final = "en_core_web_lg"
_DEFAULTS: Final[dict[str, Any]] = {
    "language": "en",
    "entities": ["PERSON", "EMAIL_ADDRESS", "PHONE_NUMBER", "CREDIT_CARD"],
    "score_threshold": 0.5,
}


class Presidio:
    """Finds the entities that a Presidio analyzer recognizes.

    A language model reads every text, so this rule is much slower than the other rules. The default
    entities exclude dates and places, which judges need for most answers.

    Args:
        analyzer: An `AnalyzerEngine`. The default needs the spaCy model `en_core_web_lg`.
        **options: Arguments of `analyze`, such as `language`, `entities` or `score_threshold`.
    """

    def __init__(self, analyzer: Any = None, **options: Any) -> None:
        self._analyzer = _default_analyzer() if analyzer is None else analyzer
        self._options = _DEFAULTS | options

    def matches(self, text: str) -> Iterator[Match]:
        for found in self._analyzer.analyze(text=text, **self._options):
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
