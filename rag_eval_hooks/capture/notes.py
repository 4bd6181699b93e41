"""Stores texts and facts that integrations report about a run. Limits the texts' length."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from functools import partial
from typing import Any

from rag_eval_hooks.capture.records import DocumentList, Facts, Interaction, Origin, Run, whole
from rag_eval_hooks.incidents import Incidents
from rag_eval_hooks.redaction.redactor import CutText
from rag_eval_hooks.sample import Context

_WAITING = 10
"""Unread events may hold this multiple of `max_chars`, because events may share texts."""
_REPEATED_SHARE = 8


class Notes:
    # whether to record content that only spans need
    span_content = False

    def __init__(self, max_chars: int, max_text_chars: int, incidents: Incidents) -> None:
        self._incidents = incidents
        # maximum number of characters in all texts of one request
        self._max_chars = max_chars
        # maximum number of characters in the unread events of one request
        self.most_waiting = _WAITING * max_chars
        # one character more than the sample keeps, to detect longer texts
        self.longest = max_text_chars + 1

    def defer(self, run: Run, event: str, read: Callable[..., None], *values: Any) -> None:
        """Let another thread call `read(*values)` later. Callers must not change the values."""
        run.interaction.pending.append(partial(self.read, run, event, read, values))

    def read(self, run: Run, event: str, read: Callable[..., None], values: Sequence[Any]) -> None:
        try:
            read(*map(whole, values))
        except Exception as error:  # noqa: BLE001 - the application's objects
            self._incidents.report(f"capture {event}", error)
            run.interaction.misses_event(of_root=run.outermost)

    def text(self, run: Run, text: str | None) -> str | None:
        if text is None:
            return None
        if run.outermost:
            return _cut_to(text, self.longest)
        return self._limited(run.interaction, text)

    def question(self, run: Run, text: str | None) -> None:
        run.query = self.text(run, text)

    def asked(self, run: Run, texts: Sequence[str]) -> None:
        interaction = run.interaction
        interaction.asked = interaction.asked or self._prompt_texts(interaction, texts)

    def kept(self, run: Run, texts: Sequence[str]) -> None:
        run.interaction.kept = self._prompt_texts(run.interaction, texts)

    def prompt(self, run: Run, texts: Sequence[str], roles: Sequence[str] = ()) -> None:
        run.prompt, run.roles = self._prompt_texts(run.interaction, texts), tuple(roles)

    def answer(self, run: Run, text: str | None, *, unknown: bool = False) -> None:
        # If `unknown`, the run has an output that capture cannot read.
        run.text, run.text_unknown = self.text(run, text), unknown

    def alternatives(
        self, run: Run, texts: Sequence[str], structured: str | None, last: Sequence[str] = ()
    ) -> None:
        interaction = run.interaction
        if run.parent is None:
            interaction.candidates, interaction.written = (
                tuple([self._limited(interaction, text, "answer") for text in some])
                for some in (texts, last)
            )
            interaction.structured = self.text(run, structured)

    def for_span(self, run: Run, **content: Any) -> None:
        if self.span_content:
            read = {
                key: self.text(run, value) if isinstance(value, str) else value
                for key, value in content.items()
                if value is not None
            }
            run.span_content = {**run.span_content, **read}

    def reply(self, run: Run, facts: Facts, tool_arguments: Sequence[Any] = ()) -> None:
        run.facts = {**run.facts, **facts}
        run.tool_arguments = tool_arguments

    def documents(
        self,
        run: Run,
        contexts: Sequence[Context],
        origin: Origin = Origin.DOCUMENTS,
        *,
        shown: Mapping[int, str] | None = None,
        named: bool | None = None,
        given: Mapping[str, str] | None = None,
    ) -> None:
        interaction = run.interaction
        kept = self._contexts(interaction, contexts)
        if contexts and not kept:
            # The retrieval found documents, but the limit dropped all of them.
            interaction.attempted = True
            return
        forms = {
            index: self._limited(interaction, text, "contexts")
            for index, text in (shown or {}).items()
            if index < len(kept)
        }
        interaction.lists.append(DocumentList(run, kept, origin, forms, named, given or {}))

    def interrupt(self, run: Run, checkpoint: str | None = None) -> None:
        run.interaction.interrupted = True
        self.stop(run, checkpoint)

    def stop(self, run: Run, checkpoint: str | None) -> None:
        if checkpoint is not None:
            run.interaction.stops.add(checkpoint)

    def _prompt_texts(self, interaction: Interaction, texts: Sequence[str]) -> tuple[str, ...]:
        found, prompted = [], interaction.prompted
        for text in texts:
            # An agent repeats its previous prompt in each call, so store a repeated text only once.
            if text in prompted and interaction.kept_chars < self._max_chars:
                interaction.kept_chars += len(text) // _REPEATED_SHARE
                found.append(prompted[text])
                continue
            found.append(kept := self._limited(interaction, text, "prompt", self._max_chars))
            if kept is text:
                prompted[text] = text
        return tuple(found)

    def _cut_metadata(self, interaction: Interaction, values: Mapping[str, Any]) -> dict[str, Any]:
        return {
            key: self._limited(interaction, value) if isinstance(value, str) else value
            for key, value in values.items()
        }

    def _contexts(
        self, interaction: Interaction, contexts: Sequence[Context]
    ) -> tuple[Context, ...]:
        kept = []
        for context in contexts:
            if interaction.kept_chars >= self._max_chars:
                interaction.left_out.add("contexts")
                break
            text = self._limited(interaction, context.text, "contexts")
            metadata = self._cut_metadata(interaction, context.metadata)
            # Create a new context, because a framework's subclass may have more fields.
            kept.append(Context(text=text, id=context.id, score=context.score, metadata=metadata))
        return tuple(kept)

    def _limited(
        self,
        interaction: Interaction,
        text: str,
        part: str = "interaction",
        longest: int | None = None,
    ) -> str:
        left = max(0, self._max_chars - interaction.kept_chars)
        size = min(len(text), self.longest if longest is None else longest)
        if size > left:
            interaction.left_out.add(part)
        interaction.kept_chars += min(size, left)
        return _cut_to(text, min(size, left))


def _cut_to(text: str, size: int) -> str:
    return text if len(text) <= size else CutText(text[:size])
