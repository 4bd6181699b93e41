"""Redaction rules: the user's regular expressions, and Microsoft's Presidio."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any, Final

from rag_eval_hooks.errors import ConfigError, missing_extra
from rag_eval_hooks.redaction.redactor import Match

# Seconds for one pattern on one text. Some patterns take exponential time. `re` has no timeout.
_TIMEOUT: Final = 1.0
_MODEL: Final = "en_core_web_lg"
_DEFAULTS: Final[dict[str, Any]] = {
    "language": "en",
    "entities": ["PERSON", "EMAIL_ADDRESS", "PHONE_NUMBER", "CREDIT_CARD"],
    "score_threshold": 0.5,
}


class Patterns:
    """A redaction rule that finds matches of your own regular expressions.

    Args:
        patterns: Maps the kind of a value, such as `CUSTOMER`, to a regular expression. If an
            expression has a group named `value`, the rule redacts only the text of this group.
    """

    def __init__(self, patterns: Mapping[str, str]) -> None:
        self._patterns = {_kind(name): _compiled(text) for name, text in patterns.items()}

    def matches(self, text: str) -> Iterator[Match]:
        for kind, pattern in self._patterns.items():
            group = "value" if "value" in pattern.groupindex else 0
            for found in pattern.finditer(text, timeout=_TIMEOUT):
                start, end = found.span(group)
                if 0 <= start < end:
                    yield Match(start, end, kind)


def _kind(name: str) -> str:
    if not name.isascii() or not name.replace("_", "a").isalpha():
        raise ConfigError("Patterns", name, "names that contain only ASCII letters and underscores")
    return name.upper()


def _compiled(text: str) -> Any:
    try:
        import regex
    except ImportError as missing:
        raise missing_extra("Patterns", "privacy") from missing
    try:
        pattern = regex.compile(text)
    except regex.error as error:
        raise ConfigError("Patterns", text, f"a regular expression ({error})") from None
    if pattern.match("") is not None:
        raise ConfigError("Patterns", text, "an expression that does not match the empty text")
    return pattern


class Presidio:
    """A redaction rule that finds the entities that Microsoft's Presidio recognizes.

    This rule is much slower than all other rules, because a language model reads every text. By
    default, the rule redacts no dates and places, because judges need them for most answers.

    Args:
        analyzer: An `AnalyzerEngine` of Presidio. The default needs spaCy's model `en_core_web_lg`.
        **options: Arguments of the analyzer's method `analyze`, such as `language`, `entities` or
            `score_threshold`.
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
