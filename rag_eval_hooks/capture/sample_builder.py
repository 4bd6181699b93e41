"""Redacted samples and span attributes of interactions."""

from __future__ import annotations

from collections.abc import Callable

from rag_eval_hooks.capture.content import Contents
from rag_eval_hooks.capture.records import Interaction
from rag_eval_hooks.capture.sample_parts import assemble
from rag_eval_hooks.config import limits
from rag_eval_hooks.config.settings import RagEvalConfig
from rag_eval_hooks.errors import RedactionError
from rag_eval_hooks.incidents import Incidents
from rag_eval_hooks.redaction import MARGIN, Redactor, Session
from rag_eval_hooks.sample import Sample

__all__ = ["Assembler"]


class Assembler:
    """Makes redacted samples of ended interactions, within the content limits.

    Args:
        config: The settings.
        redactor: Takes out what must not leave.
        incidents: Where span attributes that could not be redacted are counted.
        with_golden: Gives a sample the reference of an equal golden question, to be redacted with
            it; None without golden questions.
    """

    def __init__(
        self,
        config: RagEvalConfig,
        redactor: Redactor,
        incidents: Incidents,
        with_golden: Callable[[Sample], Sample] | None = None,
    ) -> None:
        self._config = config
        self._redactor = redactor
        self._incidents = incidents
        self._with_golden = with_golden

    @property
    def redacts(self) -> bool:
        """True if anything is redacted."""
        return self._redactor.active

    @property
    def text_chars(self) -> int:
        """Characters of one text that are of use: more than are kept, where they are redacted."""
        return self._config.max_text_chars + self._margin

    @property
    def _margin(self) -> int:
        return MARGIN if self._redactor.active else 0

    def session(self) -> Session:
        """Return a session that redacts the sample and the spans of one interaction alike."""
        return self._redactor.session()

    def sample(
        self,
        interaction: Interaction,
        session: Session,
        trace_id: str | None,
        span_id: str | None,
    ) -> Sample:
        """Return the sample of an interaction. Off the request path.

        Raises:
            RedactionError: It could not be redacted, and must not be used.
        """
        active = self._redactor.active
        return assemble(
            interaction,
            trace_id=trace_id,
            span_id=span_id,
            max_contexts=limits.CONTEXTS,
            max_text_chars=self._config.max_text_chars,
            session=session if active else None,
            # A reference must be redacted with its sample; without redaction it is added later.
            with_golden=self._with_golden if active else None,
        )

    def own(self, sample: Sample) -> Sample:
        """Return a sample of the application's own, redacted.

        Raises:
            RedactionError: It could not be redacted, and must not be used.
        """
        if not self._redactor.active:
            return sample
        return self._redactor.sample(self._with_golden(sample) if self._with_golden else sample)

    def reference(self, text: str | None) -> str | None:
        """Return a reference that comes after its sample was redacted, cut to the limit.

        Raises:
            RedactionError: Something would be taken out of it. Its placeholders would not be those
                of the sample, so it cannot be compared with the answer.
        """
        read = _first(text, self.text_chars)
        if self._redactor.sample(Sample(question="", reference=read)).reference != read:
            raise RedactionError("the reference holds what redaction takes out")
        return _first(text, self._config.max_text_chars)

    def label(self, text: str | None) -> str | None:
        """Return a feedback's label, redacted and cut to the limit.

        Raises:
            RedactionError: It could not be redacted, and must not be used.
        """
        read = _first(text, self.text_chars)
        redacted = self._redactor.sample(Sample(question="", answer=read)).answer
        return _first(redacted, self._config.max_text_chars)

    def attributes(self, session: Session, values: Contents) -> Contents:
        """Return attributes with content or ids, redacted; none if that fails."""
        if not self._redactor.active:
            return values
        try:
            return session.attributes(values)
        except RedactionError as error:
            self._incidents.report("span redaction", error)
            return {}


def _first(text: str | None, most: int) -> str | None:
    """Return the beginning of a text; any other value as it is."""
    return text[:most] if isinstance(text, str) else text
