"""Notes of integrations about runs, within the limits on the text of one interaction."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from typing import Any

from rag_eval_hooks.capture.records import DocumentList, Facts, Interaction, Origin, Run
from rag_eval_hooks.incidents import Incidents
from rag_eval_hooks.sample import Context, Status

__all__ = ["Notes"]

_WAITING = 10
"""Times as many characters may wait to be read: a text may be held by several events."""
_REPEATED_SHARE = 8
"""Repeated prompts take no memory until they are joined: this part of their length is counted."""


class Notes:
    """Writes question, answer, prompts and documents on runs."""

    # Whether content of spans alone is wanted.
    span_content = False

    def __init__(self, max_chars: int, max_text_chars: int, incidents: Incidents) -> None:
        self._incidents = incidents
        # Of all texts of one interaction together.
        self._max_chars = max_chars
        # Of its deferred events.
        self.most_waiting = _WAITING * max_chars
        # One more than the sample uses, so that truncation can be detected.
        self.longest = max_text_chars + 1

    def defer(self, run: Run, event: str, read: Callable[..., None], *values: Any) -> None:
        """Leave an event of a run to be read off the request's thread.

        If `read(*values)` raises, that is counted under the event's name, and the interaction is
        marked as incomplete. Nobody may change the values any more.
        """

        def guarded() -> None:
            try:
                read(*values)
            except Exception as error:  # noqa: BLE001 - the host's edge: objects of its own
                self._incidents.report(f"capture {event}", error)
                run.interaction.misses_event(of_root=run.outermost)

        run.interaction.pending.append(guarded)

    def text(self, run: Run, text: str | None) -> str | None:
        """Return as much of a text as may be kept; an outermost run's own is only cut."""
        if text is None:
            return None
        if run.outermost:
            return _cut_to(run.interaction, text, self.longest)
        return self._limited(run.interaction, text, self.longest)

    def question(self, run: Run, text: str | None) -> None:
        """Note the question to a retriever or an outermost run."""
        run.query = self.text(run, text)

    def asked(self, run: Run, texts: Sequence[str]) -> None:
        """Note the texts of an outermost run's input, among them perhaps the question."""
        interaction = run.interaction
        interaction.asked = interaction.asked or self._prompt_texts(interaction, texts)

    def kept(self, run: Run, texts: Sequence[str]) -> None:
        """Note the texts of the state that an outermost run without an input goes on with."""
        run.interaction.kept = self._prompt_texts(run.interaction, texts)

    def prompt(self, run: Run, texts: Sequence[str], roles: Sequence[str] = ()) -> None:
        """Note the texts that a model was given, with their roles if the framework names them."""
        run.prompt, run.roles = self._prompt_texts(run.interaction, texts), tuple(roles)

    def answer(self, run: Run, text: str | None, *, unknown: bool = False) -> None:
        """Note the text that a run gave out; `unknown` if it cannot be read."""
        run.text = self.text(run, text)
        run.text_unknown = unknown

    def alternatives(
        self, run: Run, texts: Sequence[str], structured: str | None, last: Sequence[str] = ()
    ) -> None:
        """Note further texts of a root that may be the answer, those of its last step, and JSON.

        A run that is not the root of its interaction is ignored.
        """
        if run.parent is None:
            interaction = run.interaction
            interaction.candidates, interaction.written = (
                tuple([self._limited(interaction, text, self.longest, "answer") for text in some])
                for some in (texts, last)
            )
            interaction.structured = self.text(run, structured)

    def for_span(self, run: Run, **content: Any) -> None:
        """Note content for the span of a run alone, if spans have content; texts are cut."""
        if self.span_content:
            read = {
                key: self.text(run, value) if isinstance(value, str) else value
                for key, value in content.items()
                if value is not None
            }
            run.span_content = {**run.span_content, **read}

    def reply(self, run: Run, facts: Facts, tool_arguments: Sequence[Any] = ()) -> None:
        """Note beside the text of a model's reply its span attributes and tool arguments."""
        run.facts = {**run.facts, **facts}
        run.tool_arguments = tool_arguments

    def documents(
        self,
        run: Run,
        contexts: Sequence[Context],
        origin: Origin = Origin.DOCUMENTS,
        *,
        shown: Mapping[int, str] | None = None,
        named: bool = False,
        given: Mapping[str, str] | None = None,
    ) -> None:
        """Note documents that a run gave out, or that the application states it uses.

        The other arguments are the fields of `DocumentList`.
        """
        interaction = run.interaction
        kept = self._contexts(interaction, contexts)
        if contexts and not kept:
            # Without memory left nobody knows which they were: that is no empty retrieval.
            interaction.attempted = True
            return
        forms = {
            index: self._limited(interaction, text, self.longest, "contexts")
            for index, text in (shown or {}).items()
            if index < len(kept)
        }
        interaction.lists.append(DocumentList(run, kept, origin, forms, named, given or {}))

    def choose(self, run: Run, contexts: Sequence[Context]) -> None:
        """Note contexts that the application chose itself; the last choice counts."""
        run.interaction.chosen = self._contexts(run.interaction, contexts)

    def interrupt(self, run: Run, checkpoint: str | None = None) -> None:
        """Note that an interaction waits for somebody, at a checkpoint if it is named."""
        run.interaction.interrupted = True
        self.stop(run, checkpoint)

    def stop(self, run: Run, checkpoint: str | None) -> None:
        """Note a checkpoint at which an interaction stopped, for whatever reason."""
        if checkpoint is not None:
            run.interaction.stops.add(checkpoint)

    def follow(self, run: Run, over: Callable[[], Status | None]) -> None:
        """Keep an interaction open until a stream that a run gave out is over, too.

        `over` returns how the stream's reading ended, or None while it may go on. It is called
        when the root returns, on events of the stream, and a few times a second.
        """
        run.interaction.streams.append(over)

    def _prompt_texts(self, interaction: Interaction, texts: Sequence[str]) -> tuple[str, ...]:
        return tuple([self._prompt_text(interaction, text) for text in texts])

    def _prompt_text(self, interaction: Interaction, text: str) -> str:
        # Each call of an agent is given all that the last one was.
        known = interaction.prompted.get(text)
        if known is not None and interaction.kept_chars < self._max_chars:
            interaction.kept_chars += len(text) // _REPEATED_SHARE
            return known
        kept = self._limited(interaction, text, self._max_chars, "prompt")
        if kept is text:
            interaction.prompted[text] = text
        return kept

    def _cut_metadata(self, interaction: Interaction, values: Mapping[str, Any]) -> dict[str, Any]:
        return {
            key: self._limited(interaction, value, self.longest)
            if isinstance(value, str)
            else value
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
            text = self._limited(interaction, context.text, self.longest, "contexts")
            metadata = self._cut_metadata(interaction, context.metadata)
            kept.append(replace(context, text=text, metadata=metadata))
        return tuple(kept)

    def _limited(
        self, interaction: Interaction, text: str, longest: int, part: str = "interaction"
    ) -> str:
        left = max(0, self._max_chars - interaction.kept_chars)
        size = min(len(text), longest)
        if size > left:
            interaction.left_out.add(part)
            size = left
        interaction.kept_chars += size
        return _cut_to(interaction, text, size)


def _cut_to(interaction: Interaction, text: str, size: int) -> str:
    if len(text) <= size:
        return text
    cut = text[:size]
    interaction.cut_texts.add(cut)
    return cut
