"""What Microsoft's Presidio finds: names, places and more, by a language model on disk."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any

from rag_eval_hooks.errors import ConfigError
from rag_eval_hooks.redaction.matches import Match

__all__ = ["Presidio"]

_MODEL = "en_core_web_lg"
"""What Presidio loads by its own settings."""


class Presidio:
    """Finds what a Presidio analyzer finds.

    Slow beside the other rules: its language model reads every text. Choose its entities; by
    default it also takes dates and places out, without which few answers can be judged.

    Args:
        analyzer: An `AnalyzerEngine`; by default one with Presidio's own settings, whose spaCy
            model must be on disk.
        language: Language of the texts, as Presidio calls it.
        entities: What to look for, such as `PERSON`.
        threshold: Least confidence, 0 to 1.

    Raises:
        ConfigError: No analyzer is given, and the default one's model is not on disk.
        ImportError: `presidio-analyzer` is not installed.
    """

    def __init__(
        self,
        analyzer: Any = None,
        *,
        language: str = "en",
        entities: Sequence[str] = ("PERSON", "EMAIL_ADDRESS", "PHONE_NUMBER", "CREDIT_CARD"),
        threshold: float = 0.5,
    ) -> None:
        self._analyzer = _default() if analyzer is None else analyzer
        self._language = language
        self._entities = list(entities)
        self._threshold = threshold

    def matches(self, text: str) -> Iterator[Match]:
        """The analyzer's results above the threshold."""
        for found in self._analyzer.analyze(
            text=text,
            language=self._language,
            entities=self._entities,
            score_threshold=self._threshold,
        ):
            yield Match(found.start, found.end, str(found.entity_type))


def _default() -> Any:
    try:
        from presidio_analyzer import AnalyzerEngine
        from spacy.util import is_package
    except ImportError as missing:
        raise ImportError(
            'redact="presidio" needs a package: pip install presidio-analyzer, and a model of '
            "spaCy for it"
        ) from missing
    if not is_package(_MODEL):
        # Presidio would download it.
        wants = f"the spaCy model {_MODEL} on disk (python -m spacy download {_MODEL})"
        raise ConfigError("redact", "presidio", wants)
    return AnalyzerEngine()
