"""Redaction of whole samples."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from rag_eval_hooks.errors import RedactionError
from rag_eval_hooks.redaction.rule import Rule
from rag_eval_hooks.redaction.session import RedactFunction, Session
from rag_eval_hooks.sample import Context, Sample

__all__ = ["Redactor"]


class Redactor:
    """Redacts samples by rules, functions and hashing of ids.

    Attributes:
        rules: Rules in order of precedence.
        mark: Digest of the settings; equal settings have equal marks.

    Args:
        rules: Rules in order of precedence.
        functions: Applied to every text after the rules.
        ids_key: Key for hashing ids of users and sessions; None treats them as texts.
        mark: Digest of the settings.
    """

    def __init__(
        self,
        rules: Sequence[Rule] = (),
        functions: Sequence[RedactFunction] = (),
        ids_key: bytes | None = None,
        mark: str = "",
    ) -> None:
        self.mark = mark
        self.rules = tuple(rules)
        self._functions = tuple(functions)
        self._ids_key = ids_key
        self._inactive = None if self.active else self._new_session()

    @property
    def active(self) -> bool:
        """True if anything is redacted at all."""
        return bool(self.rules or self._functions or self._ids_key)

    def session(self) -> Session:
        """Return a session for one sample and its spans; a shared one if nothing is redacted."""
        return self._inactive or self._new_session()

    def _new_session(self) -> Session:
        return Session(self.rules, self._functions, self._ids_key)

    def holds(self, text: str) -> bool:
        """Return True if redaction would change a text, or fails on it."""
        try:
            return self.session().text("reference", text) != text
        except RedactionError:
            return True

    def sample(self, sample: Sample, session: Session | None = None) -> Sample:
        """Return a sample with its texts, metadata, tags and ids redacted.

        Args:
            sample: Sample to redact.
            session: Session of the sample's spans; default: a new one.

        Raises:
            RedactionError: A rule or function failed; the sample must not be used.
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

    def again(self, sample: Sample) -> Sample:
        """Redact a sample that was redacted under other settings.

        Placeholders in it stay, and new ones are numbered after them. Functions and the hash of
        ids may thus be applied a second time.

        Raises:
            RedactionError: A rule or function failed; the sample must not be used.
        """
        session = self.session()
        session.reserve_placeholders(str(sample.to_dict()))
        return self.sample(sample, session)


def _context(by: Session, index: int, context: Context) -> Context:
    field = f"contexts[{index}]"
    return replace(
        context,
        text=by.text(f"{field}.text", context.text),
        id=by.optional(f"{field}.id", context.id),
        metadata=by.mapping(f"{field}.metadata", context.metadata),
    )
