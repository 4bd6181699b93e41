"""A redaction rule that applies the user's regular expressions, with a time limit."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any, Final

from rag_eval_hooks.errors import ConfigError, missing_extra
from rag_eval_hooks.redaction.redactor import Match

try:
    import regex
except ImportError as missing:
    raise missing_extra("Patterns", "privacy") from missing

# Seconds for one pattern on one text. Some patterns take exponential time. `re` has no timeout.
_TIMEOUT: Final = 1.0


class Patterns:
    """Finds matches of the user's regular expressions.

    Args:
        patterns: Regular expressions by kind, such as `CUSTOMER`. If an expression has a group
            `value`, only that group is redacted.
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
        pattern = regex.compile(text)
    except regex.error as error:
        raise ConfigError("Patterns", text, f"a regular expression ({error})") from None
    if pattern.match("") is not None:
        raise ConfigError("Patterns", text, "an expression that does not match the empty text")
    return pattern
