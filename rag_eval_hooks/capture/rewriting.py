"""Replaces texts that a later step rewrote, for example to mask names."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from dataclasses import replace

from rag_eval_hooks.capture.records import DocumentList, Interaction, Origin, RunKind
from rag_eval_hooks.capture.text_forms import runs_of, words
from rag_eval_hooks.sample import Context

__all__ = ["replace_rewritten"]


def replace_rewritten(interaction: Interaction) -> None:
    """Replace the earlier texts of documents by the texts that later steps gave them.

    A masked text must not come back: not as a context, not on the span of the retriever, not in
    metadata, and not by the prompts of a postprocessor's models. A later
    text replaces an earlier one of the same id if its step was given the earlier one: two stores
    may number their documents alike.
    """
    for number, found in enumerate(interaction.lists):
        earlier = interaction.lists[:number]
        around = (found.run in one.run.ancestors() for one in earlier)
        is_step = found.run.kind is not RunKind.RETRIEVER or any(around)
        if found.origin is Origin.DOCUMENTS and is_step:
            _replace(interaction, found, earlier)
    interaction.lists = [
        replace(one, contexts=tuple(_without(c, interaction.rewritten) for c in one.contexts))
        for one in interaction.lists
    ]


def _replace(
    interaction: Interaction, found: DocumentList, earlier: Sequence[DocumentList]
) -> None:
    latest = _latest_texts(found.contexts)
    known = [context for one in earlier for context in one.contexts]
    before = {name: _earlier_text(name, latest[name], known, found.given) for name in latest}
    names, texts = {context.id for context in known}, {context.text for context in known}
    lost: set[str] = set()
    if any(context.id not in names and context.text not in texts for context in found.contexts):
        # A new document may hold the text of a document that the step got and did not hand on.
        lost = found.given.keys() - latest.keys()
    replaced = {name: text for name, text in before.items() if text}
    if not replaced and not lost:
        return
    for number, one in enumerate(earlier):
        kept = [c for c in one.contexts if c.id not in lost]
        contexts = (
            replace(c, text=latest[c.id]) if c.id and replaced.get(c.id) == c.text else c
            for c in kept
        )
        interaction.lists[number] = replace(one, contexts=tuple(contexts))
    if found.run.kind is RunKind.RERANKER:
        for inner in interaction.runs:
            if inner.kind is RunKind.MODEL and found.run in inner.ancestors():
                inner.prompt, inner.roles, inner.text = (), (), None
    for name, text in replaced.items():
        interaction.rewritten.setdefault(name, set()).add(text)


def _latest_texts(contexts: Sequence[Context]) -> dict[str, str]:
    """Return the text of each id; of a document in pieces, all of them."""
    latest: dict[str, str] = {}
    for context in contexts:
        if context.id is not None:
            before = latest.get(context.id, context.text)
            same = before == context.text
            latest[context.id] = before if same else f"{before}\n{context.text}"
    return latest


def _earlier_text(
    name: str, latest: str, known: Sequence[Context], given: Mapping[str, str]
) -> str | None:
    """Return the text that a step was given under an id, if its text is another; else None."""
    was = given.get(name, latest)
    if was not in latest:
        return was
    texts = {context.text for context in known if context.id == name}
    # A part of a text may be a preview, where it is not known what the step was given.
    if latest in texts or (name not in given and any(latest in text for text in texts)):
        return None
    others = {text for text in texts if text not in latest}
    return _most_alike(others, latest) if others else None


def _most_alike(texts: Collection[str], text: str) -> str:
    """Return the text that shares the largest fraction of its words with another one."""
    own = {one: runs_of(one) | set(words(one)) for one in (*texts, text)}
    return max(texts, key=lambda one: len(own[one] & own[text]) / max(1, len(own[one])))


def _without(context: Context, rewritten: Mapping[str | None, Collection[str]]) -> Context:
    """Return a document without metadata that holds one of its earlier texts."""
    texts = [text for text in rewritten.get(context.id, ()) if text not in context.text]
    metadata = {
        key: value
        for key, value in context.metadata.items()
        if not (isinstance(value, str) and any(text in value for text in texts))
    }
    return replace(context, metadata=metadata) if texts else context
