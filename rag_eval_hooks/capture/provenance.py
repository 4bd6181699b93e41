"""Tells retrieved texts from texts of models, of users, and of tools that do not search."""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from functools import cache, lru_cache
from itertools import islice
from typing import Final

from rag_eval_hooks.capture.copied import texts_in
from rag_eval_hooks.capture.passages import MIN_RUNS, Passage, by_list, distinct
from rag_eval_hooks.capture.records import Interaction, Origin, RunKind
from rag_eval_hooks.capture.text_forms import (
    FUNCTION,
    can_answer,
    content_words,
    fold,
    is_distinctive,
    prose_around,
    runs_of,
    stems,
    width,
    words,
)
from rag_eval_hooks.text import folding
from rag_eval_hooks.text.refusals import refusal

_FAILURE: Final = re.compile(
    r"\A[\s*#>]*+(?:error|exception|http (?:error )?[45]\d\d|traceback|failed|failure"
    r"|time(?:d )?out|timeout|fehler|erreur|fallo|errore|erro|错误|エラー|오류|ошибка|خطأ)(?!\w)"
    r"|\A\w*(?:Error|Exception)\b\s*[:(]",
    re.IGNORECASE,
)
_RECEIPT: Final = re.compile(
    r"[0-9a-fA-F]{8}-[0-9a-fA-F-]{12,}|\b[0-9a-fA-F]{16,}\b|(?<!\w)/[\w./-]+"
    r"|\d{4}-\d\d-\d\d[T\d:.+Z-]*"
)
_RECEIPT_WORDS: Final = 4
_SHORTEST_ID: Final = 10
_MAX_WORDS: Final = 30
_CHUNK: Final = 120
"""Average width of the texts in a list that are passages, and not rules or names."""
_WRITTEN: Final = (Origin.TEXT, Origin.STEP, Origin.EARLIER)


class Provenance:
    def __init__(
        self, interaction: Interaction, answer: str, question: str, documents: Sequence[Passage]
    ) -> None:
        runs, models = interaction.runs, interaction.models
        self._interaction = interaction
        # A long agent compares each reply with each tool's text.
        self._runs_of = cache(runs_of)
        self._answer = answer
        self._question = fold(question)
        self._documents = [p.folded for p in documents if p.is_distinctive]
        self._replies = [(run, fold(run.text)) for run in models if run.text]
        self._arguments = [
            (run, fold(text))
            for run in models
            for arguments in run.tool_arguments
            for text in texts_in(arguments)
        ]
        self._tools = distinct(interaction.lists_of(Origin.TEXT))
        # In old graphs, a step also returns a tool's result. The result still belongs to the tool.
        self._known = {p.folded for p in self._tools} | {fold(run.query or "") for run in runs}
        self._input = [fold(text) for text in interaction.asked]
        self._lone_prompts = {fold(run.prompt[0]) for run in runs if len(run.prompt) == 1}
        self._masked = set[str]().union(*interaction.rewritten.values())
        written = distinct(found for found in interaction.lists if found.origin in _WRITTEN)
        self._written = [p for p in written if p.is_distinctive]

    def tool_texts(self) -> Iterator[tuple[Passage, bool]]:
        """Yield texts of tools that may search. The flag is True if the tool surely searches."""
        for p in filter(self._is_own, self._tools):
            run, named = p.found.run, p.found.named
            is_judged = run.kind is RunKind.TOOL and named is None
            is_search = looks_up(run.name, run.description) if is_judged else named is not False
            if named or (is_search is not False and not _is_empty(p)):
                yield p, bool(is_search)

    def step_texts(self, origin: Origin) -> list[Passage]:
        passages = distinct(self._interaction.lists_of(origin))
        return [p for p in passages if self._is_own(p) and not self._was_asked(p)]

    def is_no_prompt(self, p: Passage) -> bool:
        return not self._was_asked(p) and not self._is_model_text(p)

    def _is_own(self, p: Passage) -> bool:
        return p.is_distinctive and not self._is_made_of_others(p) and not self._is_model_text(p)

    def _was_asked(self, p: Passage) -> bool:
        return (
            p.folded in self._known
            or (len(p.found.contexts) == 1 and p.folded in self._lone_prompts)
            or any(p.folded in text for text in self._input)
            or (is_distinctive(self._question) and self._question in p.folded)
            or any(text in p.context.text for text in self._masked)
        )

    def _is_model_text(self, p: Passage) -> bool:
        is_step = p.found.run.kind is not RunKind.TOOL
        said = set(self._said_before(p, with_arguments=is_step))
        if any(p.folded in text for text in said):
            return True
        shared = set[str]().union(*(p.runs & self._runs_of(text) for text in said))
        return bool(said and p.runs) and 2 * len(shared) >= len(p.runs)

    def _is_made_of_others(self, p: Passage) -> bool:
        if any(text in p.folded for text in self._documents):
            return True
        if len(p.found.contexts) > 1:
            return False
        others = {one.folded for one in self._written if one.found is not p.found} - {p.folded}
        held = [text for text in others if text in p.folded]
        # The remaining text may be retrieved, if it is at least as wide as the narrowest part.
        return len(held) > 1 and prose_around(p.folded, held) < min(map(width, held))

    def _said_before(self, p: Passage, *, with_arguments: bool = True) -> Iterator[str]:
        run = p.found.run
        for model, text in (*self._replies, *(self._arguments if with_arguments else ())):
            if model.end is None or (run.end is not None and model.end > run.end):
                continue
            # A model inside the step may repeat a text from its prompt.
            is_inner = run.kind is not RunKind.TOOL and run in model.ancestors()
            if not (is_inner and p.folded in fold(" ".join(model.prompt))):
                yield text

    def used(self, passages: Sequence[Passage], surer: Sequence[Passage]) -> list[Passage]:
        if not passages:
            return []
        refuses = refusal(self._answer)
        known = set[str]().union(*(p.content_words for p in surer))
        new = content_words(self._answer) - known
        runs = runs_of(fold(self._answer)).difference(*(p.runs for p in surer))
        return [
            p
            for one in by_list(passages)
            # A text of a tool in `retrieval_tools` needs no evidence in the answer.
            if one[0].found.named or (not refuses and self._are_used(one, new, runs))
            for p in one
        ]

    def likely(self, passages: Sequence[Passage]) -> Iterator[Passage]:
        for one in by_list(passages):
            if len(one[0].found.contexts) > 1 and self._is_likely(one):
                yield from one

    def _is_likely(self, passages: Sequence[Passage]) -> bool:
        if sum(width(p.folded) for p in passages) >= _CHUNK * len(passages):
            return True
        if any(p.context.score is not None for p in passages) or refusal(self._answer):
            return True
        own = stems(" ".join(p.context.text for p in passages))
        # A label, such as a sentiment, follows from examples.
        return can_answer(self._answer) and len(own & stems(self._question)) > 1

    def _are_used(self, passages: Sequence[Passage], new: set[str], runs: set[str]) -> bool:
        own = set[str]().union(*(p.content_words for p in passages))
        own = own.difference(*map(content_words, self._said_before(passages[0])))
        if any(_is_most(said & own, said) for said in (new, new - content_words(self._question))):
            return True
        listed = set[str]().union(*(p.runs for p in passages))
        return bool(own) and len(runs & listed) >= min(MIN_RUNS, len(listed)) > 0


def _is_empty(p: Passage) -> bool:
    arguments = content_words(p.found.run.query or "")
    if arguments.issuperset(p.content_words):
        return True
    text, said = p.context.text, set(words(p.folded))
    if _FAILURE.match(text) or _is_receipt(text):
        return True
    if len(said) > _MAX_WORDS:
        return False
    if any(part in text.replace(" ", "") for part in _DATA["nothing"]["parts"]):
        return len(text) <= 2 * _MAX_WORDS
    left = said - _listed("nothing") - _listed("nothing", "about") - FUNCTION - arguments
    return not said.isdisjoint(_listed("nothing")) and not left


def _is_receipt(text: str) -> bool:
    # An id has at least ten characters. The pattern is slow, so count sure words first.
    sure = (part for part in text.split() if len(part) < _SHORTEST_ID and part.isalnum())
    if next(islice(sure, _RECEIPT_WORDS, None), None) is not None:
        return False
    rest, ids = _RECEIPT.subn(" ", text)
    return bool(ids) and len(words(rest)) <= _RECEIPT_WORDS


def _is_most(found: set[str], said: set[str]) -> bool:
    return bool(found) and 2 * len(found) >= len(said) and (len(found) > 1 or found == said)


_DATA: Final = folding.toml_of("tool_words.toml", "rag_eval_hooks.capture")


@cache
def _listed(group: str, name: str = "words") -> frozenset[str]:
    return frozenset(folding.fold(_DATA[group][name]).split())


_NAME_PART: Final = re.compile(r"[A-Z]+(?![^\W\d_A-Z])|[A-Z]?[^\W\d_A-Z]+")
_SENTENCE: Final = re.compile(r"[.!?\n\u3002\uff01\uff1f]")
_SIGNATURE: Final = re.compile(r"^\w+\([^\n]*\)(?:\s*->[^\n]*)?\s*\n")
_ENDINGS: Final = ("ies", "es", "s", "ing", "ed", "t", "d", "n", "en")


@lru_cache(maxsize=64)
def looks_up(name: str, description: str) -> bool | None:
    text = _SIGNATURE.sub("", description.strip())
    first = next((one for one in _SENTENCE.split(text) if one.strip()), "")
    kinds = (_kind_of(_NAME_PART.findall(one)) for one in (name, first))
    return next((kind for kind in kinds if kind is not None), None)


def _kind_of(parts: list[str]) -> bool | None:
    words = list(map(folding.fold, parts))
    for place, word in enumerate(words):
        behind = words[place + 1 :]
        if _is_of(word, "lookup"):
            return not _is_time(behind)
        # Spanish and Italian verbs without "r" are also nouns, such as "reserva".
        is_noun = f"{word}r" in _listed("action") or f"{word}re" in _listed("action")
        if is_noun or _is_one_of(word, _listed("action", "noun")) or word in _listed("time"):
            return any(_is_of(one, "lookup") for one in behind)
        if _is_of(word, "action"):
            return False
    return None


def _is_of(word: str, group: str) -> bool:
    is_part = any(part in word for part in _listed(group, "parts"))
    return is_part or _is_one_of(word, _listed(group))


def _is_time(words: list[str]) -> bool:
    objects = (word for word in words if word not in _listed("time", "before"))
    return next(objects, "") in _listed("time") and not any(word == "table" for word in words)


def _is_one_of(word: str, words: frozenset[str]) -> bool:
    stems = (word[: -len(end)] for end in _ENDINGS if word.endswith(end))
    return word in words or any(
        stem in words or f"{stem}e" in words or f"{stem}en" in words or stem[:-1] in words
        for stem in stems
        if len(stem) > 2
    )
