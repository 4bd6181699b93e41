"""Question and documents of a workflow that goes on from a stored `Context`.

Its run is given no input. What an earlier run left for it, maybe in another process, stands in the
store of its context, and in the events that its steps are given again.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from llama_index.core.base.llms.types import ChatMessage
from llama_index.core.workflow import Context, Event, StartEvent

from rag_eval_hooks.capture import CaptureOptions, Origin, Recorder, Run
from rag_eval_hooks.capture.bounded import remember
from rag_eval_hooks.capture.copied import Message, entries
from rag_eval_hooks.capture.replies import rows_in
from rag_eval_hooks.capture.snapshots import Record
from rag_eval_hooks.sample import Context as Passage
from rag_eval_hooks_llama_index.copies import plain
from rag_eval_hooks_llama_index.documents import document_lists
from rag_eval_hooks_llama_index.values import LEVELS, question_of, texts_in

__all__ = ["ResumedWorkflows", "is_given_input", "live_fields", "start_fields", "state_of"]

_MAX_WORKFLOWS = 1_000
"""Workflows whose names of questions are remembered."""


class ResumedWorkflows:
    """Reads what is left of earlier runs, and remembers under which names workflows are asked.

    Args:
        recorder: Where questions and documents are noted.
    """

    def __init__(self, recorder: Recorder) -> None:
        self._recorder = recorder
        self._names: dict[str, tuple[str, ...]] = {}

    def begins(self, run: Run, given: Mapping[str, Any], declared: Sequence[str]) -> None:
        """Note the names in the input of a workflow, or in the event that it declares for it."""
        held = entries(given.get("start_event") or given.get("kwargs")) or {}
        names = [name for name, text in held.items() if text and text == run.query]
        if found := (*names, *declared):
            remember(self._names, run.name, found, _MAX_WORKFLOWS)

    def step(
        self,
        step: Run,
        event: Any,
        state: Mapping[str, Any],
        chosen: str | None,
        options: CaptureOptions,
    ) -> None:
        """Note what a step of a workflow that was given no question goes on with.

        Args:
            step: Of the workflow.
            event: A copy of what it was given.
            state: A copy of what its store holds, by name.
            chosen: The question that the application chose.
            options: Of the workflow.
        """
        root = step.interaction.root
        left = {**(entries(event) or {}), **state}
        # The name under which the first run was asked comes first.
        names = (left.get(name) for name in self._names.get(root.name, ()))
        texts = [text for text in (chosen, *names) if isinstance(text, str)]
        asked = texts[0] if texts else question_of(left)
        if asked is None and isinstance(event, Record) and issubclass(event.kind, StartEvent):
            asked = next(iter(texts_in(event)), None)
        if not asked:
            return
        self._recorder.question(root, asked)
        found = [(Origin.GIVEN, contexts) for contexts in document_lists(left, options)]
        found += [(Origin.STEP, rows) for value in left.values() for rows in rows_in(value)]
        for origin, contexts in found:
            if passages := [one for one in contexts if asked not in one.text]:
                self._recorder.documents(step, plain(passages), origin)
        for text in _tool_texts(state):
            self._recorder.documents(step, [Passage(text=text)], Origin.TEXT)


def start_fields(workflow: Any) -> tuple[str, ...]:
    """Return the names of the fields in the event that a workflow declares for its start."""
    declared = getattr(workflow, "start_event_class", None) or getattr(
        workflow, "_start_event_class", None
    )
    return tuple(getattr(declared, "model_fields", ()))


def is_given_input(arguments: Mapping[str, Any]) -> bool:
    """Return whether the arguments of a workflow's run may hold a question."""
    kwargs, event = arguments.get("kwargs") or {}, live_fields(arguments.get("start_event"))
    given = {**arguments, **kwargs, **event}
    return any(isinstance(one, str | ChatMessage | list) and one for one in given.values())


def live_fields(event: Any) -> dict[str, Any]:
    """Return the declared and the free fields of an event; none of anything else."""
    return {**vars(event), **dict(event.items())} if isinstance(event, Event) else {}


class _Kept:
    """A live value, in place of its serialised form."""

    def __init__(self, value: Any) -> None:
        self.value = value

    @classmethod
    def serialize(cls, value: Any) -> _Kept:
        return cls(value)


def state_of(arguments: Mapping[str, Any]) -> Mapping[str, Any]:
    """Return by name what is in the store of a step's context.

    Empty for a step without a context, and where the store is not in this process's memory.
    """
    context = next((one for one in arguments.values() if isinstance(one, Context)), None)
    store = getattr(context, "store", None)
    if store is None:
        # No context, or the oldest versions.
        return dict(getattr(context, "_globals", {}))
    try:
        state = store.to_dict(_Kept).get("state_data")
    except NotImplementedError:
        # A store in another place.
        return {}
    if isinstance(state, _Kept):
        return state.value if type(state.value) is dict else getattr(state.value, "__dict__", {})
    held = state.get("_data", {}) if isinstance(state, Mapping) else {}
    return {name: kept.value for name, kept in held.items() if isinstance(kept, _Kept)}


def _tool_texts(value: Any, levels: int = LEVELS) -> Iterator[str]:
    """Yield what tools said before, as an agent's store keeps it."""
    if isinstance(value, Message):
        if value.role == "tool":
            yield value.text
    elif levels:
        held = entries(value)
        parts = value if isinstance(value, list | tuple) else ()
        for part in parts if held is None else held.values():
            yield from _tool_texts(part, levels - 1)
