"""Question and documents of a workflow that goes on from a stored `Context`.

Its run is given no input. What an earlier run left for it, maybe in another process, stands in the
store of its context, and in the events that its steps are given again.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

from llama_index.core.base.llms.types import ChatMessage, MessageRole
from llama_index.core.tools import ToolOutput
from llama_index.core.workflow import Context, StartEvent

from rag_eval_hooks.capture import Origin, Recorder, Run
from rag_eval_hooks.incidents import Incidents
from rag_eval_hooks.sample import Context as Passage
from rag_eval_hooks_llama_index import values
from rag_eval_hooks_llama_index.capture_options import LlamaIndexOptions

__all__ = ["ResumedWorkflows", "state_of"]

_MOST = 1_000
"""Workflows whose names of questions are remembered."""
_DEPTH = 6
"""Levels of nested values that are looked into."""


class ResumedWorkflows:
    """Reads what is left of earlier runs, and remembers under which names workflows are asked.

    Args:
        recorder: Of the evaluator.
        options: Choices of the application.
        incidents: Where choices that fail are counted.
    """

    def __init__(
        self, recorder: Recorder, options: LlamaIndexOptions, incidents: Incidents
    ) -> None:
        self._recorder = recorder
        self._options = options
        self._incidents = incidents
        self._names: dict[str, tuple[str, ...]] = {}

    def begins(self, run: Run, workflow: Any, arguments: Mapping[str, Any]) -> None:
        """Note the names in the input of a workflow, or in the event that it declares for it."""
        given = arguments.get("start_event") or arguments.get("kwargs")
        held = values.entries(given) or {}
        names = [name for name, text in held.items() if text and text == run.query]
        declared = getattr(workflow, "start_event_class", None) or getattr(
            workflow, "_start_event_class", None
        )
        if found := (*names, *getattr(declared, "model_fields", ())):
            self._names[run.name] = found
            while len(self._names) > _MOST:
                self._names.pop(next(iter(self._names)))

    def step(self, step: Run, arguments: Mapping[str, Any]) -> None:
        """Note what a step of a workflow that was given no question goes on with."""
        root = step.interaction.root
        state = state_of(arguments)
        left = {**(values.entries(arguments.get("ev")) or {}), **state}
        asked = self._asked(root, left, arguments.get("ev"))
        if asked is None:
            return
        self._recorder.question(root, asked)
        for found in self._options.of(root).documents_in(left, _DEPTH):
            texts = [one for one in found.contexts if asked not in one.text]
            if texts:
                self._recorder.documents(step, texts, Origin.GIVEN if found.sure else Origin.STEP)
        for text in _tool_texts(state):
            self._recorder.documents(step, [Passage(text=text)], Origin.TEXT)

    def _asked(self, root: Run, left: Mapping[str, Any], again: Any) -> str | None:
        """Return the question, under the name under which the first run was asked if possible."""
        chosen = self._options.of(root).question_in(left, self._incidents)
        named = (left.get(name) for name in self._names.get(root.name, ()))
        texts = [text for text in (chosen, *named) if isinstance(text, str)]
        asked = texts[0] if texts else values.question_of(left)
        if asked is None and isinstance(again, StartEvent):
            asked = next(values.texts_in(again), None)
        return asked or None


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
    if context is None:
        return {}
    store = getattr(context, "store", None)
    if store is None:
        # The oldest versions.
        return dict(getattr(context, "_globals", {}))
    try:
        state = store.to_dict(_Kept).get("state_data")
    except NotImplementedError:
        # A store in another place.
        return {}
    if isinstance(state, _Kept):
        return values.entries(state.value) or {}
    held = state.get("_data", {}) if isinstance(state, Mapping) else {}
    return {name: kept.value for name, kept in held.items() if isinstance(kept, _Kept)}


def _tool_texts(value: Any, depth: int = _DEPTH) -> Iterator[str]:
    """Yield what tools said before, as an agent's store keeps it."""
    if isinstance(value, ToolOutput):
        yield str(value.content or "")
    elif isinstance(value, ChatMessage):
        if value.role == MessageRole.TOOL:
            yield value.content or ""
    elif depth:
        held = values.entries(value)
        parts = value if isinstance(value, list | tuple) else ()
        for part in parts if held is None else held.values():
            yield from _tool_texts(part, depth - 1)
