"""The redaction of one sample: equal values get equal placeholders in all of its texts."""

from __future__ import annotations

import hmac
import re
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from typing import Any, Final, TypeAlias

from rag_eval_hooks import semconv
from rag_eval_hooks.errors import RedactionError
from rag_eval_hooks.redaction.divided import Divided
from rag_eval_hooks.redaction.matches import Rule, merged

__all__ = ["RedactFunction", "Session"]

RedactFunction: TypeAlias = Callable[[str, str], str]
"""From a field's name, such as `contexts[0].text`, and its text to what may leave."""
Attribute: TypeAlias = "str | int | float | bool"
Content: TypeAlias = "Attribute | Mapping[str, Any] | list[Any]"
"""An attribute, or what will be one as JSON."""

_PLACEHOLDER: Final = re.compile(r"<([A-Z_]{1,60})_(\d{1,9})>")
_DEEPEST: Final = 8  # of nested metadata; nobody has more, and a cycle has no end


class Session:
    """Redacts the texts of one sample. For one thread at a time.

    Args:
        rules: What finds what must not leave, the most telling first.
        functions: Applied to what the rules left, in order.
        ids_key: Key for hashing ids of users and sessions, or None to treat them as texts.
    """

    def __init__(
        self, rules: Sequence[Rule], functions: Sequence[RedactFunction], ids_key: bytes | None
    ) -> None:
        self._rules = rules
        self._functions = functions
        self._ids_key = ids_key
        self._known: dict[tuple[str, str], str] = {}
        self._counts: Counter[str] = Counter()

    def go_on(self, texts: str) -> None:
        """Counts on from placeholders that stand in texts already: theirs name something else."""
        for kind, number in _PLACEHOLDER.findall(texts):
            self._counts[kind] = max(self._counts[kind], int(number))

    def text(self, field: str, text: str) -> str:
        """The text with placeholders such as `<EMAIL_1>`.

        Raises:
            RedactionError: A rule or a function failed; the text must not be used.
        """
        try:
            redacted = self._by_rules(text)
            for function in self._functions:
                redacted = function(field, redacted)
                if not isinstance(redacted, str):
                    raise TypeError("a redactor gives a text")
        except Exception as error:  # noqa: BLE001 - the user's code: nothing leaves unredacted
            raise RedactionError(type(error).__name__) from None
        return Divided(redacted) if isinstance(text, Divided) else redacted

    def optional(self, field: str, text: str | None) -> str | None:
        """The same for a text that may be absent."""
        return None if text is None else self.text(field, text)

    def identity(self, field: str, text: str | None) -> str | None:
        """An id of a user or a session: hashed where there is a key, else as a text."""
        if text is None or self._ids_key is None:
            return self.optional(field, text)
        return hmac.new(self._ids_key, text.encode("utf-8", "replace"), "sha256").hexdigest()[:16]

    def mapping(self, field: str, values: Mapping[str, Any]) -> dict[str, Any]:
        """Keys and values of metadata, however deep."""
        return {
            self.text(field, str(key)): self._value(f"{field}.{key}", value, 0)
            for key, value in values.items()
        }

    def attributes(self, values: Mapping[str, Content]) -> dict[str, Content]:
        """Span attributes that hold content or ids; what becomes JSON is redacted before."""
        return {key: self._attribute(key, value) for key, value in values.items()}

    def _attribute(self, key: str, value: Content) -> Content:
        if isinstance(value, Mapping | list):
            nested: Content = self._nested(key, value, 0)
            return nested
        if not isinstance(value, str):
            return value
        if key in (semconv.SESSION_ID, semconv.USER_ID, semconv.GEN_AI_CONVERSATION_ID):
            return self.identity(key, value) or ""
        return self.text(key, value)

    def _value(self, field: str, value: Any, depth: int) -> Any:
        if value is None or isinstance(value, bool):
            return value
        if isinstance(value, str):
            return self.text(field, value)
        if isinstance(value, Mapping | list | tuple | set | frozenset):
            return self._nested(field, value, depth)
        # A number can be a card's; any other object is written as text in the end.
        written = str(value)
        redacted = self.text(field, written)
        return value if redacted == written and isinstance(value, int | float) else redacted

    def _nested(self, field: str, value: Any, depth: int) -> Any:
        if depth >= _DEEPEST:
            raise RedactionError("metadata too deep")
        if isinstance(value, Mapping):
            return {
                self.text(field, str(key)): self._value(f"{field}.{key}", item, depth + 1)
                for key, item in value.items()
            }
        return [self._value(field, item, depth + 1) for item in value]

    def _by_rules(self, text: str) -> str:
        matches = merged(text, [tuple(rule.matches(text)) for rule in self._rules])
        parts, end = [], 0
        for match in matches:
            parts += [text[end : match.start], self._placeholder(match.kind, match.value)]
            end = match.end
        return "".join([*parts, text[end:]]) if parts else text

    def _placeholder(self, kind: str, value: str) -> str:
        known = self._known.get((kind, value))
        if known is None:
            self._counts[kind] += 1
            known = self._known[kind, value] = f"<{kind}_{self._counts[kind]}>"
        return known
