"""Reads documents from nodes that LlamaIndex passes around, and from those that an answer names."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Any

from llama_index.core.schema import MetadataMode, NodeWithScore, TextNode

from rag_eval_hooks.capture import Origin, Recorder, Run
from rag_eval_hooks.capture.rewriting import without_rewritten
from rag_eval_hooks.capture.text_forms import fold, is_distinctive
from rag_eval_hooks.sample import Context
from rag_eval_hooks_llama_index.inner_answers import with_documents_behind_answers

__all__ = ["given_texts", "nodes_in", "note_nodes", "note_sources", "shown_forms", "snapshot"]

_SCALARS = (str, int, float, bool)


def nodes_in(value: Any) -> list[NodeWithScore] | None:
    """Return the nodes that a call gave out as a list, or None for anything else.

    An empty list counts as one: the caller knows whose it is.
    """
    if isinstance(value, list) and all(isinstance(item, NodeWithScore) for item in value):
        return value
    return None


def given_texts(arguments: Mapping[str, Any]) -> dict[str, str]:
    """Return the texts of the nodes that a postprocessor was given, by their ids."""
    lists = (found for value in arguments.values() if (found := nodes_in(value)))
    return {found.node.node_id: found.node.get_content() for nodes in lists for found in nodes}


def snapshot(nodes: Iterable[NodeWithScore]) -> tuple[Context, ...]:
    """Copy what may change later: text, id, score and scalar metadata."""
    return tuple(
        Context(
            text=found.node.get_content(),
            id=found.node.node_id,
            score=None if found.score is None else float(found.score),
            metadata={str(k): v for k, v in found.node.metadata.items() if isinstance(v, _SCALARS)},
        )
        for found in nodes
    )


def note_nodes(recorder: Recorder, run: Run, nodes: Sequence[NodeWithScore]) -> None:
    """Record nodes that a run gave out."""
    contexts, shown = _read(run, nodes)
    recorder.documents(run, contexts, shown=shown)


def _read(
    run: Run, nodes: Sequence[NodeWithScore]
) -> tuple[tuple[Context, ...], Mapping[int, str]]:
    contexts = without_rewritten(run, snapshot(nodes))
    return with_documents_behind_answers(run, contexts, shown_forms(nodes))


def shown_forms(nodes: Iterable[NodeWithScore]) -> dict[int, str]:
    """Return, by index, the texts of nodes with the metadata that a model is shown above them."""
    return {
        index: shown
        for index, found in enumerate(nodes)
        if not found.node.metadata.keys() <= set(found.node.excluded_llm_metadata_keys)
        and isinstance(found.node, TextNode)
        and (shown := found.node.get_content(metadata_mode=MetadataMode.LLM)) != found.node.text
    }


def note_sources(recorder: Recorder, run: Run, nodes: Iterable[NodeWithScore] | None) -> None:
    """Record the sources of an answer that were retrieved: others were made on the way.

    Where none was retrieved, as rows of a table, they all count.
    """
    sources, forms = _read(run, list(nodes or ()))
    interaction = run.interaction
    retrieved = [context for each in interaction.lists for context in each.contexts]
    question = interaction.root.query or run.query or ""
    chosen = _Retrieved(retrieved, question)
    of_sources = [chosen.of(source) for source in sources]
    if not any(of_sources):
        of_sources = list(sources)
        if sources:
            # What was retrieved on the way, such as a schema, only helped to find these.
            interaction.lists = [f for f in interaction.lists if not _is_within(f.run, run)]
    kept = [(n, c) for n, c in enumerate(of_sources) if c is not None and c.text.strip()]
    if kept:
        shown = {
            place: forms[n]
            for place, (n, context) in enumerate(kept)
            if n in forms and context is sources[n]
        }
        recorder.documents(run, [context for _, context in kept], Origin.SOURCES, shown=shown)


def _is_within(inner: Run, outer: Run) -> bool:
    return inner is outer or outer in inner.ancestors()


class _Retrieved:
    """Recognises retrieved documents among the sources of an answer.

    Args:
        contexts: What was retrieved.
        question: What was asked.
    """

    def __init__(self, contexts: Sequence[Context], question: str) -> None:
        self._ids = {context.id for context in contexts}
        self._texts = {context.text.strip(): context for context in contexts}
        self._question = fold(question)

    def of(self, source: Context) -> Context | None:
        """Return the source if it was retrieved, the document that it wraps in a prompt, or None.

        An engine may cut what it retrieved, and number the pieces; others put what they generated
        among the sources of an answer.
        """
        if source.id in self._ids:
            return source
        text = source.text.strip()
        held = [whole for whole in self._texts if whole and whole in text]
        if len(held) == 1 and held[0] != text and self._asks(text, held[0]):
            return self._texts[held[0]]
        body = text.partition("\n")[2].strip()
        pieces = (whole for whole in self._texts if text in whole or (body and body in whole))
        return source if held or any(pieces) else None

    def _asks(self, text: str, held: str) -> bool:
        """Return whether a source asks the question around the document that it holds."""
        around = fold(text.replace(held, " "))
        return is_distinctive(self._question) and self._question in around
