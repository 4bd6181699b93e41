"""Texts of tools and steps that were retrieved, apart from those that a model or the user wrote."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import replace

from rag_eval_hooks.capture.contexts.joined_texts import separated
from rag_eval_hooks.capture.contexts.questions import question_of
from rag_eval_hooks.capture.contexts.replies import texts_in
from rag_eval_hooks.capture.contexts.text_forms import (
    distinct_words,
    fold,
    is_telling,
    is_telling_text,
    shingles,
    words,
)
from rag_eval_hooks.capture.contexts.unsaid import Unsaid
from rag_eval_hooks.capture.records import DocumentList, Interaction, Origin, Run, RunKind
from rag_eval_hooks.text.refusals import refusal

__all__ = ["countable", "guesses", "unsaid_of", "used_steps"]

_NAMES = re.compile(r"[0-9a-fA-F]{8}-[0-9a-fA-F-]{12,}|\b[0-9a-fA-F]{16,}\b|(?<!\w)/[\w./-]+")
"""Ids and paths."""
_NAME = re.compile(r"[\w.:/#?&=%+-]+", re.ASCII)
"""A label, an address or an id."""
_TURNS = [
    re.compile(rf"^[^\S\n]*(?:{names})[^\S\n]*[:\uff1a]", re.IGNORECASE | re.MULTILINE)
    for names in (
        "human|user|customer|nutzer|benutzer|usuario|utilisateur|用户|ユーザー|사용자",
        "ai|assistant|bot|agent|assistent|asistente|助手|アシスタント|어시스턴트",
    )
]
"""Beginnings of the turns of a conversation, as it is written in a prompt."""
_TIME = re.compile(r"\d{4}-\d\d-\d\d[T\d:.+Z-]{0,30}")
"""A date, perhaps with the time of day."""
_MOST_IN_RECEIPT = 4
"""Words beside them in a text that reports what a tool did."""


def countable(interaction: Interaction, answer: str | None) -> list[DocumentList]:
    """Return the lists whose documents were retrieved, without texts that only seem to be.

    Texts of tools count where nothing else was found; beside documents, where the answer says
    what only they say. What repeats a model's words, relays those of an inner model or joins
    documents to one text does not count.
    """
    sure = [found for found in interaction.lists if not found.is_guessed]
    others = [found for found in sure if found.origin is not Origin.TEXT]
    if len(others) == len(sure):
        return others
    lists = list(separated(interaction.lists))
    texts = [found for found in lists if found.origin is Origin.TEXT]
    said = _Said(interaction)
    texts = [found for found in texts if not said.relays(found, others)]
    if any(found.contexts for found in others):
        unsaid = unsaid_of(interaction, others, answer)
        texts = [found for found in texts if found.named or unsaid.is_in(_texts_in(found))]
    kept = {id(found) for found in (*others, *texts)}
    return [found for found in lists if id(found) in kept]


def used_steps(
    interaction: Interaction, documents: Sequence[DocumentList], unsaid: Unsaid
) -> list[DocumentList]:
    """Return the lists of texts of steps from which an answer has what no document says.

    Such are rows of a database beside passages. A persona or an example of an answer stands in
    the prompt, too, and is none; nor is what joins or excerpts documents.
    """
    steps = [
        found
        for found in interaction.lists_of(Origin.STEP)
        if not _consists_of(" ".join(_texts_in(found)), documents)
    ]
    steps = guesses(interaction, steps, beside=True)
    if not steps or refusal(unsaid.answer):
        return []
    return [found for found in steps if unsaid.is_in(_texts_in(found))]


def unsaid_of(
    interaction: Interaction, documents: Sequence[DocumentList], answer: str | None
) -> Unsaid:
    """Return what an answer says that no document does."""
    contexts = {context.text: context for found in documents for context in found.contexts}
    metadata = [" ".join(f"{k} {v}" for k, v in c.metadata.items()) for c in contexts.values()]
    return Unsaid(answer or "", question_of(interaction)[0], [*contexts, *metadata])


def _texts_in(found: DocumentList) -> list[str]:
    return [context.text for context in found.contexts]


def guesses(
    interaction: Interaction, lists: Sequence[DocumentList], *, beside: bool = False
) -> list[DocumentList]:
    """Return the lists of texts of steps that neither a model nor the user wrote.

    A text with the question in it is a prompt, a text that retrievers were asked is a query, and
    one that a step masked must not come back. None counts where the model that answered was not
    seen, as in a chain that calls it without its callbacks.

    Args:
        interaction: An ended one.
        lists: Of texts.
        beside: Whether they count beside documents: there a message of a prompt may be one, but
            neither labelled turns of a conversation nor a text without a space.
    """
    if not (lists := list(separated(lists))):
        return []
    said = _Said(interaction)
    if not said.makes_up(interaction.root.text):
        return []
    given = [fold(text) for text in interaction.asked]
    question = fold(question_of(interaction)[0])
    prompts = [run.prompt for run in interaction.runs if len(run.prompt) == 1 or not beside]
    whole = {fold(text) for prompt in prompts for text in prompt}
    whole |= {fold(run.query) for run in interaction.runs if run.query}
    # Older graphs hand what a tool gave through steps of their own: it counts as the tool's.
    whole |= {fold(c.text) for f in interaction.lists_of(Origin.TEXT) for c in f.contexts}
    masked = {text for texts in interaction.rewritten.values() for text in texts if text}

    def is_new(text: str, run: Run) -> bool:
        folded = fold(text)
        if folded in whole or any(folded in one for one in given) or said.echoes(text, run):
            return False
        if beside and (_NAME.fullmatch(folded) or all(turn.search(text) for turn in _TURNS)):
            return False
        if any(one in text for one in masked):
            return False
        return is_telling(folded) and not (is_telling(question) and question in folded)

    new = [
        replace(f, contexts=tuple(c for c in f.contexts if is_new(c.text, f.run))) for f in lists
    ]
    return [found for found in new if found.contexts]


class _Said:
    """Texts that the models of an interaction said."""

    def __init__(self, interaction: Interaction) -> None:
        models = [run for run in interaction.runs if run.kind is RunKind.MODEL]
        self._texts = [(run, text) for run in models for text in _texts_of(run)]
        self._shingles: dict[str, set[str]] = {}

    def echoes(self, text: str, run: Run) -> bool:
        """Return whether at least half of a text stands in what models said before a run's end."""
        before = [said for model, said in self._texts if _is_before(model, run)]
        if run.query and _mostly(text, run.query):
            return True
        folded = fold(text)
        if any(folded in said for said in before):
            return True
        parts = self._parts(before)
        own = shingles(folded) if parts else set()
        return bool(own) and 2 * len(own & parts) >= len(own)

    def makes_up(self, answer: str | None) -> bool:
        """Return whether at least half of the words of an answer are those of models."""
        own = distinct_words(fold(answer or "").lower())
        said = {word for _, text in self._texts for word in distinct_words(text.lower())}
        return not own or not said or 2 * len(own & said) >= len(own)

    def _parts(self, said: Sequence[str]) -> set[str]:
        parts: set[str] = set()
        for text in said:
            if text not in self._shingles:
                self._shingles[text] = shingles(text)
            parts |= self._shingles[text]
        return parts

    def relays(self, found: DocumentList, others: Sequence[DocumentList]) -> bool:
        """Return whether a tool's text is not its own, but that of documents or of a model."""
        text = " ".join(_texts_in(found))
        if found.named:
            return _consists_of(text, _inside(found.run, others))
        inner = (said for model, said in self._texts if found.run in model.ancestors())
        is_reply = any(_is_nearly(said, fold(text)) for said in inner)
        relayed = is_reply or self.echoes(text, found.run) or _consists_of(text, others)
        return relayed or _is_receipt(text)


def _is_before(model: Run, run: Run) -> bool:
    """Return whether a model had spoken when a run ended, but for one inside of a tool."""
    if run.kind is RunKind.TOOL and run in model.ancestors():
        return False
    return model.end is not None and (run.end is None or model.end <= run.end)


def _is_nearly(reply: str, text: str) -> bool:
    return bool(reply) and (text in reply or (reply in text and 10 * len(reply) >= 9 * len(text)))


def _is_receipt(text: str) -> bool:
    """Return whether a text only tells the time or what was done to something: an id or a path."""
    if _TIME.fullmatch(text.strip()):
        return True
    rest, names = _NAMES.subn(" ", text)
    return names > 0 and len(words(rest)) <= _MOST_IN_RECEIPT


def _mostly(text: str, arguments: str) -> bool:
    """Return whether at least half of a tool's words are those of its arguments."""
    # A wide character alone stands in many texts.
    given = {word for word in distinct_words(arguments) if len(word) > 1}
    own = words(text)
    return 2 * len([word for word in own if word in given]) >= len(own) > 0


def _texts_of(model: Run) -> Iterator[str]:
    """Yield a model's reply and the texts in the arguments of its tool calls, folded."""
    if model.text:
        yield fold(model.text)
    for arguments in model.tool_arguments:
        yield from map(fold, texts_in(arguments))


def _inside(run: Run, lists: Iterable[DocumentList]) -> list[DocumentList]:
    return [found for found in lists if run in found.run.ancestors() or found.run is run]


def _consists_of(text: str, lists: Sequence[DocumentList]) -> bool:
    """Return whether a text is made of documents; short ones stand in many by chance."""
    known = {context.text for found in lists for context in found.contexts} - {""}
    held = [one for one in known if one in text]
    return any(is_telling_text(one) for one in held) or 2 * sum(map(len, held)) > len(text)
