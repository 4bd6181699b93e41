"""Redaction of the texts of one sample, in which equal values share a placeholder."""

from __future__ import annotations

import hmac
import re
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final, TypeAlias

from rag_eval_hooks import semconv
from rag_eval_hooks.errors import RedactionError
from rag_eval_hooks.redaction.rule import Rule, merge_matches

__all__ = ["MARGIN", "Content", "CutText", "RedactFunction", "Session"]

MARGIN: Final = 400
"""Characters that a cut text loses at its end after redaction, because a value that the cut splits
is not recognised. No address, number or token that the rules find is longer; a private key is
recognised by its first line."""

RedactFunction: TypeAlias = Callable[[str, str], str]
"""Maps a field's name, such as `contexts[0].text`, and its text to the redacted text."""
Attribute: TypeAlias = "str | int | float | bool"


@dataclass(frozen=True, slots=True)
class CutText:
    """Value of a span attribute that was cut at its end."""

    text: str


Content: TypeAlias = "Attribute | CutText | Mapping[str, Any] | list[Any]"
"""Value of a span attribute; mappings and lists are written as JSON after redaction."""

_PLACEHOLDER: Final = re.compile(r"<([A-Z_]{1,60})_(\d{1,9})>")
_MAX_DEPTH: Final = 8
"""Levels of nested metadata; deeper values, such as cycles, fail."""
_IDS: Final = (semconv.SESSION_ID, semconv.USER_ID, semconv.GEN_AI_CONVERSATION_ID)


class Session:
    """Redacts the texts of one sample and of its spans. Not thread-safe."""

    def __init__(
        self, rules: Sequence[Rule], functions: Sequence[RedactFunction], ids_key: bytes | None
    ) -> None:
        self._rules = rules
        self._functions = functions
        self._ids_key = ids_key
        self._placeholders: dict[tuple[str, str], str] = {}
        self._counts: Counter[str] = Counter()

    def reserve_placeholders(self, texts: str) -> None:
        """Number new placeholders after those that texts hold already."""
        for kind, number in _PLACEHOLDER.findall(texts):
            self._counts[kind] = max(self._counts[kind], int(number))

    def text(self, field: str, text: str) -> str:
        """Return a text with placeholders such as `<EMAIL_1>`.

        Raises:
            RedactionError: A rule or function failed; the text must not be used.
        """
        try:
            redacted = self._by_rules(text)
            for function in self._functions:
                redacted = function(field, redacted)
                if not isinstance(redacted, str):
                    raise TypeError("a redaction function must return a str")
        except Exception as error:  # noqa: BLE001 - user code: nothing leaves unredacted
            raise RedactionError(type(error).__name__) from None
        return redacted

    def cut_text(self, field: str, text: str) -> str:
        """Return the redaction of a text that was cut at its end, without its last characters."""
        return self.text(field, text)[:-MARGIN]

    def optional(self, field: str, text: str | None) -> str | None:
        """Return the redacted text, or None for None."""
        return None if text is None else self.text(field, text)

    def identity(self, field: str, text: str | None, *, is_cut: bool = False) -> str | None:
        """Return the id of a user or session, hashed if there is a key, else redacted as text."""
        if text is None:
            return None
        if self._ids_key is None:
            return self.cut_text(field, text) if is_cut else self.text(field, text)
        return hmac.new(self._ids_key, text.encode("utf-8", "replace"), "sha256").hexdigest()[:16]

    def mapping(self, field: str, values: Mapping[str, Any], depth: int = 0) -> dict[str, Any]:
        """Return metadata with its keys and values redacted, down to any depth.

        Raises:
            RedactionError: As for `text`, or the metadata is nested too deep.
        """
        return {
            self.text(field, str(key)): self.value(f"{field}.{key}", value, depth)
            for key, value in values.items()
        }

    def attributes(self, values: Mapping[str, Content]) -> dict[str, Content]:
        """Return span attributes with content and ids redacted."""
        return {key: self._attribute(key, value) for key, value in values.items()}

    def _attribute(self, key: str, value: Content) -> Content:
        if isinstance(value, Mapping | list):
            nested: Content = self._nested(key, value, 0)
            return nested
        is_cut = isinstance(value, CutText)
        text = value.text if isinstance(value, CutText) else value
        if not isinstance(text, str):
            return text
        if key in _IDS:
            return self.identity(key, text, is_cut=is_cut) or ""
        return self.cut_text(key, text) if is_cut else self.text(key, text)

    def value(self, field: str, value: Any, depth: int = 0) -> Any:
        """Return any value of metadata redacted; a number that is no card number stays one."""
        if value is None or isinstance(value, bool):
            return value
        if isinstance(value, str):
            return self.text(field, value)
        if isinstance(value, Mapping | list | tuple | set | frozenset):
            return self._nested(field, value, depth)
        # Numbers can be card numbers; any other object is written as text in the end.
        written = str(value)
        redacted = self.text(field, written)
        return value if redacted == written and isinstance(value, int | float) else redacted

    def _nested(self, field: str, value: Any, depth: int) -> Any:
        if depth >= _MAX_DEPTH:
            raise RedactionError("metadata too deep")
        if isinstance(value, Mapping):
            return self.mapping(field, value, depth + 1)
        return [self.value(field, item, depth + 1) for item in value]

    def _by_rules(self, text: str) -> str:
        matches = merge_matches(text, [tuple(rule.matches(text)) for rule in self._rules])
        parts, end = [], 0
        for match in matches:
            parts += [text[end : match.start], self._placeholder(match.kind, match.value)]
            end = match.end
        return "".join([*parts, text[end:]]) if parts else text

    def _placeholder(self, kind: str, value: str) -> str:
        if (kind, value) not in self._placeholders:
            self._counts[kind] += 1
            self._placeholders[kind, value] = f"<{kind}_{self._counts[kind]}>"
        return self._placeholders[kind, value]
