"""Choices that the application makes itself, and the documents in what its steps give out."""

from __future__ import annotations

import functools
import os
import sys
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple

from llama_index.core.schema import BaseNode, NodeWithScore
from llama_index.core.workflow import Event

from rag_eval_hooks.capture import CaptureOptions, Choice, Run
from rag_eval_hooks.capture.copied import is_message
from rag_eval_hooks.capture.replies import as_json, found_nothing, json_in, main_part
from rag_eval_hooks.capture.rows import lone_row, row_of, table_rows
from rag_eval_hooks.context import contexts_of, is_readable
from rag_eval_hooks.incidents import Incidents
from rag_eval_hooks.sample import Context
from rag_eval_hooks_llama_index import values
from rag_eval_hooks_llama_index.sources import snapshot

__all__ = ["LlamaIndexOptions"]

_DOCUMENT_KEYS = frozenset(
    {"documents", "docs", "context", "contexts", "nodes", "chunks", "passages"}
)
_DEPTH = 4
_WIDE = 1000
"""Levels of nested values that are looked into, and items of each list."""


class StepDocuments(NamedTuple):
    """Documents that a step gave out; unless that is sure, a prompt has to show them."""

    contexts: tuple[Context, ...]
    sure: bool


@dataclass(frozen=True, slots=True, kw_only=True)
class LlamaIndexOptions(CaptureOptions):
    """Capture options, applied to the arguments and results of LlamaIndex's calls."""

    def of(self, run: Run | None) -> LlamaIndexOptions:
        """Return the options for a run: one opened by hand may have options of its own."""
        own = None if run is None else run.interaction.options
        return self if own is None else own.over(self)

    def question_in(self, arguments: Mapping[str, Any], incidents: Incidents) -> str | None:
        """Return the chosen question in the arguments of the outermost call."""
        return values.question_of(_selected("question", self.question, arguments, incidents))

    def answer_in(self, given: Any, incidents: Incidents) -> str | None:
        """Return the chosen answer in the result of the outermost call."""
        return values.answer_of(_selected("answer", self.answer, given, incidents))

    def contexts_in(self, given: Any, incidents: Incidents) -> tuple[Context, ...] | None:
        """Return the chosen contexts in the result of a step; None where it has none."""
        chosen = _selected("contexts", self.contexts, given, incidents)
        if chosen is None:
            return None
        contexts = self._typed(chosen)
        if contexts is None:
            incidents.report("choice contexts", TypeError())
        return contexts

    def documents_in(self, given: Any, depth: int = _DEPTH) -> Iterator[StepDocuments]:
        """Yield the lists of documents in the result of a step, and texts that may be some.

        Messages, events and outputs of the framework's own are none.
        """
        if isinstance(given, str):
            yield from self._in_text(given, depth)
        elif depth and not _is_of_framework(given):
            held = values.entries(given)
            if held is not None:
                yield from self._in_fields(given, held, depth)
            elif isinstance(given, list | tuple):
                yield from self._under("", given, depth - 1)

    def _in_fields(
        self, given: Any, held: Mapping[str, Any], depth: int
    ) -> Iterator[StepDocuments]:
        if depth < _DEPTH:
            # A part of what the step gave out: a message, a record, or else a container.
            if is_message(held):
                return
            if (lone := lone_row(given)) is not None:
                yield StepDocuments(lone, sure=False)
                return
        for key, value in held.items():
            yield from self._under(key, value, depth - 1)

    def _in_text(self, text: str, depth: int) -> Iterator[StepDocuments]:
        """Yield what a text of JSON holds, or the text itself."""
        held = json_in(text) if depth else None
        if found_nothing(held):
            return
        found: list[tuple[Context, ...]] = []
        if isinstance(held, list) and (rows := self._rows(held, as_json)) is not None:
            found = [rows]
        elif held is not None and lone_row(held) is None:
            found = [one.contexts for one in self.documents_in(main_part(held), _DEPTH - 1)]
        for contexts in found or [(Context(text=text),)]:
            yield StepDocuments(contexts, sure=False)

    def _rows(
        self, items: Sequence[Any], write: Callable[[Any], str] = repr
    ) -> tuple[Context, ...] | None:
        """Return the main texts of rows where most have one, else the rows of a table, or None."""
        if any(map(_is_of_framework, items)):
            return None
        held = filter(None, map(values.entries, items))
        rows = tuple(filter(None, map(row_of, held)))
        return rows if rows and 2 * len(rows) >= len(items) else table_rows(items, write)

    def _under(self, key: str, value: Any, depth: int) -> Iterator[StepDocuments]:
        keys = _DOCUMENT_KEYS if self.document_keys is None else self.document_keys
        named = key in keys
        value = value[:_WIDE] if isinstance(value, list | tuple) else value
        if isinstance(value, list | tuple) and value and isinstance(value[0], int | float):
            return
        listed = isinstance(value, list | tuple) and (value or named)
        contexts = self._typed(value) if listed else None
        if contexts is not None:
            nodes = all(isinstance(one, NodeWithScore | BaseNode) for one in value)
            yield StepDocuments(contexts, sure=nodes or named or self.as_context is not None)
        elif listed and (rows := self._rows(value)) is not None:
            yield StepDocuments(rows, sure=False)
        elif listed:
            for part in value:
                yield from self.documents_in(part, depth)
        else:
            yield from self.documents_in(value, depth)

    def _typed(self, value: Any) -> tuple[Context, ...] | None:
        """Return documents of any type; None where one is not known as a document."""
        contexts: list[Context] = []
        for part in value if isinstance(value, list | tuple) else [value]:
            if (context := self._one(part)) is None:
                return None
            contexts.append(context)
        return tuple(contexts)

    def _one(self, value: Any) -> Context | None:
        if isinstance(value, NodeWithScore):
            return snapshot([value])[0]
        if isinstance(value, BaseNode):
            return snapshot([NodeWithScore(node=value)])[0]
        if _is_of_framework(value):
            return None
        if self.as_context is not None and (text := self.as_context(value)) is not None:
            return text if isinstance(text, Context) else Context(text=str(text))
        held = values.entries(value)
        if held is not None and is_message(held):
            return None
        if not is_readable(held or value):
            return None
        try:
            (context,) = contexts_of(held or value)
        except (TypeError, ValueError):
            return None
        return context


def _is_of_framework(value: Any) -> bool:
    kind: type = type(value)
    return _is_framework_class(kind)


@functools.lru_cache(maxsize=1024)
def _is_framework_class(kind: type) -> bool:
    """Return whether a class is LlamaIndex's; an application may have a package `workflows`."""
    name = kind.__module__
    if name.startswith("llama_index."):
        return True
    known = getattr(sys.modules.get(name), "__file__", None) or ""
    folder = os.path.dirname(sys.modules[Event.__module__].__file__ or "")
    return name.startswith("workflows.") and known.startswith(folder + os.sep)


def _selected(name: str, choice: Choice, value: Any, incidents: Incidents) -> Any:
    if choice is None:
        return None
    if isinstance(choice, str):
        return _named(value, choice, _DEPTH)
    try:
        return choice(value)
    except Exception as error:  # noqa: BLE001 - the host's edge: a function of its own
        incidents.report(f"choice {name}", error)
        return None


def _named(value: Any, name: str, depth: int) -> Any:
    held = values.entries(value)
    if held is None or not depth:
        return None
    if name in held:
        return held[name]
    inner = (_named(one, name, depth - 1) for one in held.values())
    return next((one for one in inner if one is not None), None)
