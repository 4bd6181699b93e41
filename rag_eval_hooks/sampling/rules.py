"""Rules: conditions on an ended interaction that set its rate."""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Any, Final

from rag_eval_hooks.config.rules import RuleSettings
from rag_eval_hooks.decision import Traits

__all__ = ["Rule"]

_SEARCHED: Final = 4000
"""Characters in which patterns are searched: a request must not wait for a long text."""


class Rule:
    """The conditions of one rule, ready to be looked at.

    Args:
        settings: The rule.
    """

    def __init__(self, settings: RuleSettings) -> None:
        self._settings = settings
        self._tags = frozenset(settings.tags)
        self._question = _compiled(settings.question)
        self._answer = _compiled(settings.answer)
        error = settings.error
        self._error = _compiled("" if error is True else error)
        self._metadata = {
            key: frozenset(map(str, value if isinstance(value, list) else [value]))
            for key, value in settings.metadata.items()
        }

    @property
    def about_errors(self) -> bool:
        """Whether it is about interactions that ended with an exception."""
        return self._error is not None

    def fits(self, traits: Traits) -> bool:
        """Whether an interaction meets all conditions."""
        return (
            self._tags.issubset(traits.tags)
            and self._fits_metadata(traits.metadata)
            and self._fits_latency(traits.latency)
            and _found(self._question, traits.question)
            and _found(self._error, traits.error_type or "")
            and (self._answer is None or _found(self._answer, traits.answer()))
        )

    def _fits_metadata(self, metadata: Mapping[str, Any]) -> bool:
        return all(
            key in metadata and str(metadata[key]) in accepted
            for key, accepted in self._metadata.items()
        )

    def _fits_latency(self, latency: float | None) -> bool:
        above, below = self._settings.latency_above, self._settings.latency_below
        if above is None and below is None:
            return True
        if latency is None:
            return False
        return (above is None or latency >= above) and (below is None or latency < below)


def _compiled(pattern: str | None) -> re.Pattern[str] | None:
    return None if pattern is None else re.compile(pattern)


def _found(pattern: re.Pattern[str] | None, text: str | None) -> bool:
    if pattern is None:
        return True
    return text is not None and pattern.search(text[:_SEARCHED]) is not None
