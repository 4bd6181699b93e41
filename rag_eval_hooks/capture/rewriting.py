"""Texts that a later step rewrote, as one that masks names does."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from dataclasses import replace

from rag_eval_hooks.capture.question import most_alike
from rag_eval_hooks.capture.records import DocumentList, Run, RunKind
from rag_eval_hooks.sample import Context

__all__ = ["replace_rewritten", "without_rewritten"]


def replace_rewritten(
    run: Run, contexts: Sequence[Context], given: Mapping[str, str]
) -> tuple[Context, ...]:
    """Replace earlier texts of documents that a run gave out with another text.

    Whatever was taken out must not come back: not as a context, not by way of an earlier stage,
    not in metadata, and not in the prompts and replies by which the run's own models rewrote it.

    Args:
        run: The step, which may have rewritten documents.
        contexts: Documents that it gave out: the earlier ones of the same ids. Where one is of an
            id and a text that nobody gave out before, documents that the step was given and did
            not hand on may be in it, and are dropped.
        given: Texts of the documents that it was given, by their ids; of those that it changed
            in place, the new ones.

    Returns:
        The contexts, without metadata that holds an earlier text.
    """
    interaction = run.interaction
    latest = _latest_texts(contexts)
    earlier = _earlier_texts(interaction.lists, latest, given)
    for name, text in given.items():
        if text and text not in latest.get(name, text):
            earlier.setdefault(name, set()).add(text)
    lost = set(given) - latest.keys() if _is_any_new(contexts, interaction.lists) else set()
    if not earlier and not lost:
        return tuple(contexts)
    interaction.lists = [
        replace(found, contexts=tuple(_replaced(found.contexts, latest, earlier, lost)))
        for found in interaction.lists
    ]
    for inner in interaction.runs:
        if inner.kind is RunKind.MODEL and run in inner.ancestors():
            inner.prompt, inner.text = (), None
    for name, texts in earlier.items():
        interaction.rewritten.setdefault(name, set()).update(texts)
    return without_rewritten(run, contexts)


def without_rewritten(run: Run, contexts: Sequence[Context]) -> tuple[Context, ...]:
    """Return documents that a run gave out without metadata that holds a text rewritten before."""
    rewritten = run.interaction.rewritten
    return tuple(_without(context, rewritten.get(context.id, set())) for context in contexts)


def _latest_texts(contexts: Sequence[Context]) -> dict[str, str]:
    """Return the text of each id; of a document in pieces, all of them."""
    latest: dict[str, str] = {}
    for context in contexts:
        if context.id is not None:
            before = latest.get(context.id, context.text)
            same = before == context.text
            latest[context.id] = before if same else f"{before}\n{context.text}"
    return latest


def _earlier_texts(
    lists: Sequence[DocumentList], latest: dict[str, str], given: Mapping[str, str]
) -> dict[str, set[str]]:
    """Return by id the texts that its latest text no longer holds, of documents that were given.

    Two stores may number their documents alike: an id alone does not tell which one it was.
    """
    known = [context for found in lists for context in found.contexts]
    earlier: dict[str, set[str]] = {}
    for context in known:
        name = context.id
        if name is None or name not in latest or context.text in latest[name]:
            continue
        texts = {c.text for c in known if c.id == name}
        others = {text for text in texts if text not in latest[name]}
        is_given = given.get(name) == context.text
        is_changed = given.get(name, latest[name]) in latest[name] and latest[name] not in texts
        if is_given or (is_changed and context.text == most_alike(others, latest[name])):
            earlier.setdefault(name, set()).add(context.text)
    return earlier


def _is_any_new(contexts: Sequence[Context], lists: Sequence[DocumentList]) -> bool:
    known = {context.id for found in lists for context in found.contexts}
    known |= {context.text for found in lists for context in found.contexts}
    return any(context.id not in known and context.text not in known for context in contexts)


def _replaced(
    contexts: Sequence[Context],
    latest: dict[str, str],
    earlier: dict[str, set[str]],
    lost: Collection[str],
) -> list[Context]:
    return [
        _without(replace(context, text=latest[context.id]), earlier[context.id])
        if context.id in earlier and context.text in earlier[context.id]
        else context
        for context in contexts
        if context.id not in lost
    ]


def _without(context: Context, texts: set[str]) -> Context:
    """Return a document without metadata that holds one of these texts."""
    gone = {
        key
        for key, value in context.metadata.items()
        if isinstance(value, str)
        and any(text in value for text in texts if text and text not in context.text)
    }
    if not gone:
        return context
    return replace(context, metadata={k: v for k, v in context.metadata.items() if k not in gone})
