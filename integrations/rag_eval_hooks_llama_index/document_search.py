"""Search of copied values for lists of documents, and for texts that may be documents."""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from typing import Any, NamedTuple

from llama_index.core.schema import BaseNode, MetadataMode, NodeWithScore, TextNode

from rag_eval_hooks.capture.copied import is_message
from rag_eval_hooks.capture.replies import as_json, found_nothing, json_in, main_part
from rag_eval_hooks.capture.rows import lone_row, row_of, table_rows
from rag_eval_hooks.context import contexts_of, is_readable, scalars
from rag_eval_hooks.sample import Context
from rag_eval_hooks_llama_index.values import is_of_framework, values_by_name

__all__ = ["Candidates", "candidates_in", "nodes_in", "shown_forms", "snapshot", "typed"]

_DOCUMENT_KEYS = frozenset(
    {"documents", "docs", "context", "contexts", "nodes", "chunks", "passages"}
)
_LEVELS = 4
_MAX_ITEMS = 1000
"""Levels of nested values that are looked into, and items of each list."""


class Candidates(NamedTuple):
    """Documents that a step gave out; unless that is sure, a prompt has to show them."""

    contexts: tuple[Context, ...]
    sure: bool


def nodes_in(value: Any) -> list[NodeWithScore] | None:
    """Return the nodes that a call gave out as a list, or None for anything else.

    An empty list counts as one: the caller knows whose it is.
    """
    if isinstance(value, list) and all(isinstance(item, NodeWithScore) for item in value):
        return value
    return None


def snapshot(nodes: Iterable[NodeWithScore]) -> tuple[Context, ...]:
    """Return nodes as contexts: text, id, score and scalar metadata."""
    return tuple(
        Context(
            text=found.node.get_content(),
            id=found.node.node_id,
            score=None if found.score is None else float(found.score),
            metadata={str(key): value for key, value in scalars(found.node.metadata).items()},
        )
        for found in nodes
    )


def shown_forms(nodes: Iterable[NodeWithScore]) -> dict[int, str]:
    """Return, by index, the texts of nodes with the metadata that a model is shown above them."""
    return {
        index: shown
        for index, found in enumerate(nodes)
        if not found.node.metadata.keys() <= set(found.node.excluded_llm_metadata_keys)
        and isinstance(found.node, TextNode)
        and (shown := found.node.get_content(metadata_mode=MetadataMode.LLM)) != found.node.text
    }


def typed(value: Any) -> tuple[Context, ...] | None:
    """Return documents of any type; None where one is not known as a document."""
    found = [_context_of(part) for part in (value if isinstance(value, list | tuple) else [value])]
    contexts = tuple(context for context in found if context is not None)
    return contexts if len(contexts) == len(found) else None


def _context_of(value: Any) -> Context | None:
    if isinstance(value, NodeWithScore | BaseNode):
        found = NodeWithScore(node=value) if isinstance(value, BaseNode) else value
        return snapshot([found])[0]
    held = values_by_name(value)
    if is_of_framework(value) or (held is not None and is_message(held)):
        return None
    if not is_readable(held or value):
        return None
    try:
        (context,) = contexts_of(held or value)
    except (TypeError, ValueError):
        return None
    return context


def candidates_in(
    value: Any, document_keys: Collection[str] | None, levels: int = _LEVELS
) -> Iterator[Candidates]:
    """Yield the lists of documents in the result of a step, and texts that may be documents.

    Messages, events and outputs of the framework's own are not searched.

    Args:
        value: A copy of the result.
        document_keys: Names under which an empty list is an empty retrieval; None for the usual.
        levels: Levels of containers that are looked into.
    """
    return _Search(_DOCUMENT_KEYS if document_keys is None else document_keys).of(value, levels)


class _Search:
    def __init__(self, keys: Collection[str]) -> None:
        self._keys = keys

    def of(self, value: Any, levels: int, *, is_part: bool = False) -> Iterator[Candidates]:
        if isinstance(value, Context):
            yield Candidates((value,), sure=True)
        elif isinstance(value, str):
            yield from self._in_text(value, levels)
        elif levels and not is_of_framework(value):
            held = values_by_name(value)
            if held is None:
                yield from self._under("", value, levels - 1)
            elif not is_part:
                yield from self._in_fields(held, levels)
            elif not is_message(held):
                # A part of what the step gave out: a record, or else a container.
                lone = lone_row(value)
                yield from self._in_fields(held, levels) if lone is None else _unsure(lone)

    def _in_fields(self, held: Mapping[str, Any], levels: int) -> Iterator[Candidates]:
        for key, value in held.items():
            yield from self._under(key, value, levels - 1)

    def _in_text(self, text: str, levels: int) -> Iterator[Candidates]:
        """Yield what a text of JSON holds, or the text itself."""
        held = json_in(text) if levels else None
        if found_nothing(held):
            return
        found: list[tuple[Context, ...]] = []
        if isinstance(held, list) and (rows := _rows(held, as_json)) is not None:
            found = [rows]
        elif held is not None and lone_row(held) is None:
            parts = self.of(main_part(held), _LEVELS - 1, is_part=True)
            found = [one.contexts for one in parts]
        for contexts in found or [(Context(text=text),)]:
            yield from _unsure(contexts)

    def _under(self, key: str, value: Any, levels: int) -> Iterator[Candidates]:
        if not isinstance(value, list | tuple):
            if key:
                yield from self.of(value, levels, is_part=True)
            return
        value = value[:_MAX_ITEMS]
        is_named = key in self._keys
        if not (value or is_named) or (value and isinstance(value[0], int | float)):
            return
        contexts = typed(value)
        if contexts is not None:
            known = all(isinstance(one, NodeWithScore | BaseNode | Context) for one in value)
            yield Candidates(contexts, sure=known or is_named)
        elif (rows := _rows(value)) is not None:
            yield from _unsure(rows)
        else:
            for part in value:
                yield from self.of(part, levels, is_part=True)


def _unsure(contexts: tuple[Context, ...]) -> Iterator[Candidates]:
    yield Candidates(contexts, sure=False)


def _rows(items: Sequence[Any], write: Callable[[Any], str] = repr) -> tuple[Context, ...] | None:
    """Return the main texts of rows where most have one, else the rows of a table, or None."""
    if any(map(is_of_framework, items)):
        return None
    held = filter(None, map(values_by_name, items))
    rows = tuple(filter(None, map(row_of, held)))
    return rows if rows and 2 * len(rows) >= len(items) else table_rows(items, write)
