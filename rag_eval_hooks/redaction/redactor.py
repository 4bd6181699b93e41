"""Redacts samples: replaces each found value by a placeholder, such as `<EMAIL_1>`.

Within a sample, equal values get the same placeholder.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from operator import itemgetter
from typing import Any, Final, Protocol, TypeAlias, runtime_checkable

from rag_eval_hooks import semconv
from rag_eval_hooks.errors import RedactionError, wrong_type
from rag_eval_hooks.incidents import in_words, place_of
from rag_eval_hooks.sample import Context, Sample
from rag_eval_hooks.text.folding import LazyPatterns, compiled, toml_of


@dataclass(frozen=True, slots=True)
class Match:
    """Position of a value that the redactor replaces by a placeholder."""

    start: int  # index of the first character
    end: int  # index after the last character
    kind: str  # name of the placeholder in letters and underscores, such as `EMAIL`
    value: str = ""  # equal values share a placeholder; if empty, the value is the matched text


@runtime_checkable
class Rule(Protocol):
    """Finds the values in a text that must be redacted, such as e-mail addresses.

    Several threads may call a rule at once. The time should grow linearly with the text's length.
    """

    def matches(self, text: str) -> Iterable[Match]:
        """Return all matches, in any order. Matches may overlap."""
        ...


Finder: TypeAlias = Callable[[str], Iterable[Match]]


def expressions(section: str, **parts: str) -> LazyPatterns:
    table = toml_of("expressions.toml", __package__ or "")
    return compiled(table[section], table["parts"] | parts, flags=0)


def merge_matches(by_rule: Sequence[Iterable[Match]]) -> list[Match]:
    """Merge overlapping matches. The earliest rule sets the kind of the merged match."""
    ranked = [(rank, match) for rank, matches in enumerate(by_rule) for match in matches]
    merged: list[tuple[int, Match]] = []
    for rank, match in sorted(ranked, key=lambda each: (each[1].start, each[0])):
        if merged and match.start < merged[-1][1].end:
            other = merged.pop()
            start, end = other[1].start, max(other[1].end, match.end)
            rank, match = min(other, (rank, match), key=itemgetter(0))
            if (start, end) != (match.start, match.end):
                match = Match(start, end, match.kind)
        if match.start < match.end:
            merged.append((rank, match))
    return [match for _, match in merged]


MARGIN: Final = 400
"""Number of characters to remove from the end of a cut text after redaction.

No rule recognizes a value that the cut splits. Addresses, numbers and tokens are shorter than this
margin. A private key may be longer, but its first line identifies the key.
"""

RedactFunction: TypeAlias = Callable[[str], str]
Attribute: TypeAlias = "str | int | float | bool"


class CutText(str):
    __slots__ = ()


Content: TypeAlias = "Attribute | Mapping[str, Any] | list[Any]"
"""Value of a span attribute. After redaction, mappings and lists become JSON."""

_PLACEHOLDER: Final = re.compile(r"<([A-Z_]{1,60})_(\d{1,9})>")
_CONVERSATION: Final = (
    semconv.GEN_AI_SYSTEM_INSTRUCTIONS,
    semconv.GEN_AI_INPUT_MESSAGES,
    semconv.GEN_AI_OUTPUT_MESSAGES,
)
STRUCTURE: Final = ("role", "type", "id", "name", "finish_reason")
"""Fields of messages, and of message parts, that contain no text of the application."""
_IDS: Final = ("question_id", "session_id", "user_id")
_MAX_DEPTH: Final = 8
"""Maximum depth of nested metadata. Redaction fails on deeper values, such as cycles."""


class Session:
    """Redacts one sample and its spans. Not thread-safe."""

    def __init__(self, redactor: Redactor, redacted: str = "") -> None:
        self._redactor = redactor
        self._placeholders: dict[tuple[str, str], str] = {}
        self._counts: Counter[str] = Counter()
        # New placeholders get higher numbers than the existing placeholders.
        for kind, number in _PLACEHOLDER.findall(redacted):
            self._counts[kind] = max(self._counts[kind], int(number))

    def text(self, field: str, text: str) -> str:
        """Return the redacted text. Raise `RedactionError` if a rule or function fails."""
        try:
            redacted = self._by_rules(text)
            for function in self._redactor.functions:
                redacted = function(redacted)
                if not isinstance(redacted, str):
                    advice = f"Return the text.{place_of(function)}"
                    raise wrong_type("The result of a redaction function", "str", redacted, advice)
        except Exception as error:  # noqa: BLE001 - the user's function may raise anything
            # A key of metadata may be content.
            part = field.partition("metadata.")[0] or "metadata"
            told = in_words("a redaction function", error)
            raise RedactionError(f"{told}, on {part.rstrip('.')}") from None
        return redacted

    def cut_text(self, field: str, text: str) -> str:
        return self.text(field, text)[:-MARGIN]

    def value(self, field: str, value: Any, depth: int = 0) -> Any:
        if value is None or isinstance(value, bool):
            return value
        if isinstance(value, str):
            return (self.cut_text if isinstance(value, CutText) else self.text)(field, value)
        if isinstance(value, Mapping | list | tuple | set | frozenset):
            return self._nested(field, value, depth)
        # Numbers can be card numbers. Other objects are written as text.
        written = str(value)
        redacted = self.text(field, written)
        return value if redacted == written and isinstance(value, int | float) else redacted

    def _nested(self, field: str, value: Any, depth: int) -> Any:
        if depth > _MAX_DEPTH:
            raise RedactionError(f"The metadata has more than {_MAX_DEPTH} nested levels.")
        if not isinstance(value, Mapping):
            return [self.value(field, item, depth + 1) for item in value]
        return {
            self.text(field, str(key)): self.value(f"{field}.{key}", item, depth + 1)
            for key, item in value.items()
        }

    def attributes(self, values: Mapping[str, Content]) -> dict[str, Content]:
        return {key: self._attribute(key, value) for key, value in values.items()}

    def _attribute(self, key: str, value: Content) -> Content:
        if key in _CONVERSATION:
            return self._messages(key, value)  # type: ignore[no-any-return]
        return value if isinstance(value, int | float) else self.value(key, value)

    def _messages(self, key: str, value: Any) -> Any:
        if isinstance(value, list):
            return [self._messages(key, item) for item in value]
        inner = {name: self._messages if name == "parts" else self.value for name in value}
        return {k: v if k in STRUCTURE else inner[k](key, v) for k, v in value.items()}

    def _by_rules(self, text: str) -> str:
        matches = merge_matches([tuple(rule(text)) for rule in self._redactor.rules])
        parts, end = [], 0
        for match in matches:
            value = match.value or text[match.start : match.end]
            parts += [text[end : match.start], self._placeholder(match.kind, value)]
            end = match.end
        return "".join([*parts, text[end:]]) if parts else text

    def _placeholder(self, kind: str, value: str) -> str:
        if (kind, value) not in self._placeholders:
            self._counts[kind] += 1
            self._placeholders[kind, value] = f"<{kind}_{self._counts[kind]}>"
        return self._placeholders[kind, value]


@dataclass(frozen=True, slots=True)
class Redactor:
    rules: Sequence[Finder] = ()  # in order of precedence
    functions: Sequence[RedactFunction] = ()
    mark: str = ""  # digest of the redaction settings

    @property
    def active(self) -> bool:
        return bool(self.rules or self.functions)

    def session(self) -> Session:
        return Session(self)

    def holds(self, text: str) -> bool:
        try:
            return self.session().text("reference", text) != text
        except RedactionError:
            return True

    def sample(self, sample: Sample, session: Session | None = None) -> Sample:
        if not self.active:
            return sample
        by = session or self.session()
        contexts = [_context(by, f"contexts[{n}]", c) for n, c in enumerate(sample.contexts or ())]
        fields = ("question", "answer", "reference", *_IDS, "metadata")
        listed = ("reference_ids", "tags", "truncated")
        redacted = {name: by.value(name, getattr(sample, name)) for name in fields + listed}
        # Redaction changes chunk ids and `reference_ids` in the same way, so equal ids stay equal.
        redacted |= {name: tuple(redacted[name]) for name in listed if redacted[name] is not None}
        return replace(sample, **redacted, contexts=sample.contexts and tuple(contexts))

    def again(self, sample: Sample) -> Sample:
        return self.sample(sample, Session(self, str(sample.to_dict())))


def _context(by: Session, field: str, context: Context) -> Context:
    names = ("text", "id", "metadata")
    redacted = {name: by.value(f"{field}.{name}", getattr(context, name)) for name in names}
    return replace(context, **redacted)
