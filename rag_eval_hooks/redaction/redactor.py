"""Takes out of a sample what must not leave, once, before anything else sees it."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from rag_eval_hooks.errors import RedactionError
from rag_eval_hooks.redaction.matches import Rule
from rag_eval_hooks.redaction.session import RedactFunction, Session
from rag_eval_hooks.sample import Context, Sample

__all__ = ["Redactor"]


class Redactor:
    """What is taken out of every sample.

    Attributes:
        rules: What finds it, the most telling rule first.
        mark: Tells these settings from others.

    Args:
        rules: What finds it, the most telling rule first.
        functions: Applied to every text behind the rules.
        ids_key: Key for hashing ids of users and sessions, or None not to hash them.
        mark: Tells these settings from others.
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

    def holds(self, text: str) -> bool:
        """Whether something would be taken out of a text, or cannot be ruled out to be."""
        try:
            return self.session().text("reference", text) != text
        except RedactionError:
            return True

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

    def again(self, sample: Sample) -> Sample:
        """A sample that other settings were applied to.

        Placeholders that stand in it stay, and new ones are counted on from them. Functions and
        the hash of ids are applied to what they may have been applied to already.

        Raises:
            RedactionError: It could not be redacted, and must not be used.
        """
        session = self.session()
        session.go_on(str(sample.to_dict()))
        return self.sample(sample, session)


def _context(by: Session, place: int, context: Context) -> Context:
    field = f"contexts[{place}]"
    return replace(
        context,
        text=by.text(f"{field}.text", context.text),
        id=by.optional(f"{field}.id", context.id),
        metadata=by.mapping(f"{field}.metadata", context.metadata),
    )
