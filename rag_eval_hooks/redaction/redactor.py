"""Takes out of a sample what must not leave, once, before anything else sees it."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import Final

from rag_eval_hooks.redaction.matches import Rule
from rag_eval_hooks.redaction.session import RedactFunction, Session
from rag_eval_hooks.sample import Context, Sample

__all__ = ["MARGIN", "Redactor"]

MARGIN: Final = 400
"""Characters beyond the content limit that are redacted too, and cut off then: what the limit
divides would not be recognised. No address, number or token that is looked for is longer, and a
private key is known by its first line."""


class Redactor:
    """What is taken out of every sample.

    Attributes:
        rules: What finds it, the most telling rule first.

    Args:
        rules: What finds it, the most telling rule first.
        functions: Applied to every text behind the rules.
        ids_key: Key for hashing ids of users and sessions, or None not to hash them.
    """

    def __init__(
        self,
        rules: Sequence[Rule] = (),
        functions: Sequence[RedactFunction] = (),
        ids_key: bytes | None = None,
    ) -> None:
        self.rules = tuple(rules)
        self._functions = tuple(functions)
        self._ids_key = ids_key
        self._idle = None if self.active else self._new_session()

    @property
    def active(self) -> bool:
        """Whether it does anything."""
        return bool(self.rules or self._functions or self._ids_key)

    def session(self) -> Session:
        """What redacts one sample, and the spans of it; where nothing is redacted, all of them."""
        return self._idle or self._new_session()

    def _new_session(self) -> Session:
        return Session(self.rules, self._functions, self._ids_key)

    def sample(self, sample: Sample, session: Session | None = None) -> Sample:
        """The sample without what must not leave: texts, metadata, tags and ids.

        Args:
            sample: Any.
            session: That of its spans; by default a new one.

        Raises:
            RedactionError: It could not be redacted, and must not be used.
        """
        if not self.active:
            return sample
        by = session or self.session()
        contexts = None
        if sample.contexts is not None:
            contexts = tuple(_context(by, n, c) for n, c in enumerate(sample.contexts))
        return replace(
            sample,
            question=by.text("question", sample.question),
            contexts=contexts,
            answer=by.optional("answer", sample.answer),
            reference=by.optional("reference", sample.reference),
            question_id=by.optional("question_id", sample.question_id),
            session_id=by.identity("session_id", sample.session_id),
            user_id=by.identity("user_id", sample.user_id),
            tags=tuple(by.text("tags", str(tag)) for tag in sample.tags),
            metadata=by.mapping("metadata", sample.metadata),
            truncated=tuple(by.text("truncated", name) for name in sample.truncated),
        )


def _context(by: Session, place: int, context: Context) -> Context:
    field = f"contexts[{place}]"
    return replace(
        context,
        text=by.text(f"{field}.text", context.text),
        id=by.optional(f"{field}.id", context.id),
        metadata=by.mapping(f"{field}.metadata", context.metadata),
    )
