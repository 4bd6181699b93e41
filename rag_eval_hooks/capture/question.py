"""The question of an interaction, the queries made of it, and documents of earlier stages."""

from __future__ import annotations

from collections import Counter
from collections.abc import Collection, Sequence
from dataclasses import replace

from rag_eval_hooks.capture.records import DocumentList, Interaction, Origin, Run, RunKind
from rag_eval_hooks.capture.text_forms import fold, is_distinctive, runs_of, words
from rag_eval_hooks.sample import Context

__all__ = ["Rewritten", "condensed_question", "most_alike", "queries", "question_of", "stages"]

_RETRIEVED = (Origin.DOCUMENTS, Origin.GIVEN, Origin.SOURCES)
_MAX_STAGES = 8
"""Stages and queries kept."""
_MIN_SHARED = 0.6
"""Fraction of their words that a text and its rewritten form share."""


def question_of(interaction: Interaction) -> tuple[str, str]:
    """Return the question, and where it was found.

    A text of the root's input comes before any query that was made of it. Of several texts, none
    under a usual name, that one counts which a retriever was asked or the first model was shown.

    Returns:
        The text, "" if there is none, and `recorded`, `input`, `prompt` or `query`.
    """
    root = interaction.root
    asked = queries(interaction)
    if root.query:
        if root.kind is not RunKind.MANUAL:
            return root.query, "input"
        if not interaction.joined:
            return root.query, "recorded"
        return root.query, "query" if root.query in asked else "prompt"
    if interaction.asked:
        return _used_input(interaction, asked)
    if left := _left_in_state(interaction, asked):
        # Of several nobody knows which is the question; a query is none of them.
        return left[0] if len(left) == 1 else "", "input"
    return next(iter(asked), ""), "query"


def queries(interaction: Interaction) -> list[str]:
    """Return the distinct queries of outermost retrievers, in order."""
    asked = dict.fromkeys(run.query for run in _outer_retrievers(interaction) if run.query)
    return list(asked)[:_MAX_STAGES]


def _outer_retrievers(interaction: Interaction) -> list[Run]:
    return [
        run
        for run in interaction.runs[1:]
        if run.kind is RunKind.RETRIEVER and not run.within(RunKind.RETRIEVER)
    ]


def _prompts(interaction: Interaction) -> list[str]:
    return [fold("\n".join(run.prompt)) for run in interaction.runs if run.prompt]


def _used_input(interaction: Interaction, asked: Sequence[str]) -> tuple[str, str]:
    """Return the text of the input that a retriever or a model was given, else the longest.

    A short text that nothing was given, such as the name of a language, is no question where a
    retriever was asked one.
    """
    texts = {text: fold(text) for text in interaction.asked}
    prompts = _prompts(interaction)
    for places, is_short_enough in (
        ([fold(query) for query in asked], True),
        (prompts[:1], False),
        (prompts, False),
    ):
        used = [
            text
            for text, folded in texts.items()
            if (is_short_enough or is_distinctive(folded))
            and any(folded in place for place in places)
        ]
        if used:
            return max(used, key=len), "prompt"
    longest = max(texts, key=len)
    if asked and not is_distinctive(texts[longest]):
        return asked[0], "query"
    return longest, "input"


def _left_in_state(interaction: Interaction, asked: Sequence[str]) -> list[str]:
    """Return the texts of a state that a retriever was asked, that prompts show, or all of them.

    The user wrote no text that holds a document.
    """
    lists = interaction.lists_of(Origin.DOCUMENTS)
    documents = {fold(context.text) for found in lists for context in found.contexts}
    distinctive = list(filter(is_distinctive, documents))
    folded = {text: fold(text) for text in interaction.kept}
    texts = {t: one for t, one in folded.items() if not any(d in one for d in distinctive)}
    folded_queries = set(map(fold, asked))
    if exact := [text for text, one in texts.items() if one in folded_queries]:
        return exact
    prompts = _prompts(interaction)
    shown = (
        t for t, one in texts.items() if is_distinctive(one) and any(one in p for p in prompts)
    )
    return list(shown) or list(texts)


def condensed_question(interaction: Interaction, question: str) -> str | None:
    """Return the only query, if it was made of the question and asked in its place.

    A model that picks a tool, or divides the question into several, makes other queries of it.
    """
    asked = _outer_retrievers(interaction)
    query = next((run.query for run in asked if run.query), "")
    is_alone = all(run.query in (query, "", None) for run in asked)
    if query in ("", question) or not is_alone or any(run.within(RunKind.TOOL) for run in asked):
        return None
    before = interaction.runs[: interaction.runs.index(asked[0])]
    said = (fold(run.text or "") for run in before if run.kind is RunKind.MODEL)
    folded = fold(query)
    return query if all(folded == text or folded not in text for text in said) else None


def stages(
    interaction: Interaction, final: tuple[Context, ...] | None
) -> list[tuple[str, tuple[Context, ...]]]:
    """Return lists with more or other documents than the final contexts, by their source."""
    kept: list[tuple[str, tuple[Context, ...]]] = []
    rewritten = Rewritten(interaction)
    last = {context.text for context in final or ()}
    seen: set[tuple[str, ...]] = set()
    for found in interaction.lists:
        texts = tuple(context.text for context in found.contexts)
        if found.origin in _RETRIEVED and texts not in seen and not last.issuperset(texts):
            seen.add(texts)
            kept.append((found.run.name, rewritten.of(found)))
    return kept[:_MAX_STAGES]


class Rewritten:
    """Texts that a later step rewrote, as one that masks names does.

    What was taken out must not come back by way of an earlier stage. Two documents are one if
    they share their id; without ids, if they share their metadata and most of their words.

    Args:
        interaction: An ended one.
    """

    def __init__(self, interaction: Interaction) -> None:
        self._latest: dict[str, list[tuple[Run, str]]] = {}
        self._bare: list[dict[str, Context]] = []
        for found in reversed(interaction.lists):
            if found.origin in _RETRIEVED:
                self._note(found)

    def of(self, found: DocumentList) -> tuple[Context, ...]:
        """Return the documents of a list with the last text of each."""
        return tuple(replace(one, text=self._text(one, found.run)) for one in found.contexts)

    def _note(self, found: DocumentList) -> None:
        named = Counter(context.id for context in found.contexts)
        for context in found.contexts:
            if context.id is not None and named[context.id] == 1:
                self._latest.setdefault(context.id, []).append((found.run, context.text))
        self._bare.append({c.text: c for c in found.contexts if c.id is None})

    def _text(self, context: Context, run: Run) -> str:
        text = context.text
        known = self._latest.get(context.id or "", ())
        # Another store may number its documents alike.
        others = {one for by, one in known if by.kind is RunKind.RETRIEVER and _is_apart(by, run)}
        for later, written in known:
            if later is run:
                break
            is_given = later.kind is not RunKind.RETRIEVER or later in run.ancestors()
            if is_given and written not in others:
                is_same = written == text or text == most_alike(others | {text}, written)
                return written if is_same else text
        for bare in self._bare:
            if text in bare:
                return text
            if alike := next((c for c in bare.values() if _are_alike(context, c)), None):
                return alike.text
        return text


def _is_apart(one: Run, other: Run) -> bool:
    return one is not other and one not in other.ancestors() and other not in one.ancestors()


def most_alike(texts: Collection[str], text: str) -> str:
    """Return the text that shares the largest fraction of its words with another one."""
    known = runs_of(text) | set(words(text))

    def shared(one: str) -> float:
        own = runs_of(one) | set(words(one))
        return len(own & known) / max(1, len(own))

    return max(texts, key=shared)


def _are_alike(one: Context, other: Context) -> bool:
    if one.metadata != other.metadata:
        return False
    own, others = set(one.text.split()), set(other.text.split())
    return len(own & others) >= _MIN_SHARED * max(1, len(own | others))
