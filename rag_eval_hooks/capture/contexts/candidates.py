"""Documents that may be contexts, each in the forms in which a model may have been shown it."""

from __future__ import annotations

from collections import Counter
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace

from rag_eval_hooks.capture.contexts.text_forms import distinct_words, fold, is_telling
from rag_eval_hooks.capture.records import DocumentList, Origin
from rag_eval_hooks.sample import Context

__all__ = ["Candidate", "candidates_of", "likeliest", "once", "with_short_texts"]

_WRITTEN = (Origin.TEXT, Origin.STEP, Origin.EARLIER)
_LEAST_IN_METADATA = 40
"""Characters of a text in a document's metadata that may be shown in its place."""


@dataclass(frozen=True, slots=True)
class Candidate:
    """A document that may be a context.

    Attributes:
        context: The document.
        shown: The document with each text in which it may be shown, likeliest first.
        is_row: Whether a step or tool wrote it: a prompt may show some values of a row.
    """

    context: Context
    shown: Sequence[Context]
    is_row: bool = False

    def stands_in(self, texts: Collection[str]) -> bool:
        """Return whether it is among folded texts in any of its forms."""
        return any(fold(context.text) in texts for context in self.shown)


def candidates_of(lists: Sequence[DocumentList]) -> dict[str, Candidate]:
    """Return each text once; a later stage knows more about it, such as a reranker's score.

    A stage that hands on bare texts knows nothing more. Within one list the first counts.

    Returns:
        Candidates by their folded text.
    """
    distinct: dict[str, Candidate] = {}
    folded = {text: fold(text) for text in {c.text for found in lists for c in found.contexts}}
    for found in lists:
        listed: dict[str, Candidate] = {}
        for index, context in enumerate(found.contexts):
            text = folded[context.text]
            if text in listed:
                continue
            bare = context.id is None and context.score is None and not context.metadata
            if not (bare and text in distinct):
                shown = tuple(_shown(context, text, found.shown.get(index)))
                listed[text] = Candidate(context, shown, found.origin in _WRITTEN)
        distinct |= listed
    return distinct


def _shown(context: Context, folded: str, form: str | None) -> Iterator[Context]:
    """Yield a document in the form of its framework, by a text that holds it, as it is.

    A sentence is shown by its window, a question by the passage that answers it.
    """
    if form is not None:
        yield replace(context, text=form)
    texts = [
        text
        for text in context.metadata.values()
        if isinstance(text, str) and len(text) >= _LEAST_IN_METADATA
    ]
    if not texts:
        yield context
        return
    holding = [text for text in texts if folded in fold(text)] if is_telling(folded) else []
    yield from (replace(context, text=text) for text in holding)
    yield context
    yield from (replace(context, text=text) for text in texts if text not in holding)


def likeliest(
    contexts: tuple[Context, ...] | None, answer: str | None, most: int
) -> tuple[Context, ...] | None:
    """Return as many contexts as are wanted, in their order: those that the answer may rest on.

    A word of the answer counts more, the fewer contexts hold it. Of equal ones the last count, as
    the last search of an agent is the nearest to its answer.

    Args:
        contexts: All, or None.
        answer: What the user got; without one the first contexts are returned.
        most: How many are wanted.
    """
    if contexts is None or len(contexts) <= most or answer is None:
        return contexts if contexts is None else contexts[:most]
    said = _words(answer)
    held = [said & _words(context.text) for context in contexts]
    times = Counter(word for words_held in held for word in words_held)
    weights = [sum(1 / times[word] for word in words_held) for words_held in held]
    ranked = sorted(range(len(contexts)), key=lambda index: (weights[index], index))
    return tuple(contexts[index] for index in sorted(ranked[-most:]))


def _words(text: str) -> set[str]:
    return distinct_words(fold(text).lower())


def once(contexts: Iterable[Context]) -> tuple[Context, ...]:
    """Return each text once, the first time that it stands there."""
    return tuple(_first(contexts).values())


def _first(contexts: Iterable[Context]) -> dict[str, Context]:
    """Return the first context of each folded text."""
    found: dict[str, Context] = {}
    for context in contexts:
        found.setdefault(fold(context.text), context)
    return found


def with_short_texts(
    seen: tuple[Context, ...], lists: Sequence[DocumentList]
) -> tuple[Context, ...]:
    """Return what was seen, with texts too short to be searched, by their place in the list.

    They belong to the last list that was seen: what stood beside them was in the prompt.
    """
    texts = {fold(context.text) for context in seen}
    for found in reversed(lists):
        beside = _first(found.contexts)
        if not texts.isdisjoint(beside):
            return _beside(seen, beside)
    return seen


def _beside(seen: Iterable[Context], listed: Mapping[str, Context]) -> tuple[Context, ...]:
    """Return seen texts, each with the short ones beside it in its list.

    Between these, what was seen keeps its order.
    """
    by_text = {fold(context.text): context for context in seen}
    groups: dict[str, list[Context]] = {text: [context] for text, context in by_text.items()}
    leading: list[Context] = []
    group = leading
    for text, context in listed.items():
        if text in groups:
            groups[text][:0] = leading
            leading, group = [], groups[text]
        elif text and not is_telling(text):
            group.append(context)
    return tuple(context for group in groups.values() for context in group)
