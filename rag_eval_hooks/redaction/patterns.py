"""Patterns of the user's own, with a limit of time."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any, Final

from rag_eval_hooks.errors import ConfigError
from rag_eval_hooks.redaction.matches import Match

try:
    import regex
except ImportError as missing:
    raise ImportError(
        'redact_patterns needs an extra: pip install "rag-eval-hooks[privacy]"'
    ) from missing

__all__ = ["Patterns"]

_LIMIT: Final = 1.0
"""Seconds for one pattern over one text: some patterns take exponentially long over some texts,
and the standard library cannot be stopped."""


class Patterns:
    """Finds what regular expressions match.

    Args:
        patterns: Kinds, such as `CUSTOMER`, and their expressions. Where one has a group named
            `value`, only that group is found.

    Raises:
        ConfigError: An expression cannot be read, matches nothing at all, or a name is none.
    """

    def __init__(self, patterns: Mapping[str, str]) -> None:
        self._patterns = {_kind(name): _compiled(text) for name, text in patterns.items()}

    def matches(self, text: str) -> Iterator[Match]:
        """All matches.

        Raises:
            TimeoutError: A pattern takes longer than a second.
        """
        for kind, pattern in self._patterns.items():
            group = "value" if "value" in pattern.groupindex else 0
            for found in pattern.finditer(text, timeout=_LIMIT):
                start, end = found.span(group)
                if 0 <= start < end:
                    yield Match(start, end, kind)


def _kind(name: str) -> str:
    if not name.isascii() or not name.replace("_", "a").isalpha():
        raise ConfigError("redact_patterns", name, "names of ASCII letters and underscores")
    return name.upper()


def _compiled(text: str) -> Any:
    try:
        pattern = regex.compile(text)
    except regex.error as error:
        raise ConfigError("redact_patterns", text, f"a regular expression ({error})") from None
    if pattern.match("") is not None:
        raise ConfigError("redact_patterns", text, "an expression that does not match nothing")
    return pattern
