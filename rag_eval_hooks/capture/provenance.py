"""Distinguishes retrieved texts from texts that a model, the user or an acting tool wrote."""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from enum import Enum, auto
from functools import cache, cached_property
from typing import Final

from rag_eval_hooks.capture.passages import MIN_RUNS, Passage, by_list, distinct
from rag_eval_hooks.capture.records import Interaction, Origin, Run, RunKind
from rag_eval_hooks.capture.rows import texts_in
from rag_eval_hooks.capture.text_forms import fold, is_distinctive, runs_of, words
from rag_eval_hooks.text.folding import FUNCTION_WORDS, content_tokens, toml_of
from rag_eval_hooks.text.refusals import refusal

_STOP: Final = frozenset[str]().union(*FUNCTION_WORDS.values())
_RECEIPT: Final = re.compile(
    r"[0-9a-fA-F]{8}-[0-9a-fA-F-]{12,}|\b[0-9a-fA-F]{16,}\b|(?<!\w)/[\w./-]+"
    r"|\d{4}-\d\d-\d\d[T\d:.+Z-]*"
)
_RECEIPT_WORDS: Final = 4
_FAILURE: Final = re.compile(
    r"\A[\s*#>]*+(?:error|exception|http (?:error )?[45]\d\d|traceback|failed|failure"
    r"|time(?:d )?out|timeout|fehler|erreur|fallo|errore|erro|错误|エラー|오류|ошибка|خطأ)(?!\w)"
    r"|\A\w*(?:Error|Exception)\b\s*[:(]",
    re.IGNORECASE,
)
_MAX_WORDS: Final = 30
_WRITTEN: Final = (Origin.TEXT, Origin.STEP, Origin.EARLIER)


def content_words(text: str) -> set[str]:
    return set(content_tokens(text)) - _STOP


class Provenance:
    def __init__(
        self, interaction: Interaction, answer: str, question: str, documents: Sequence[Passage]
    ) -> None:
        self._interaction = interaction
        self._answer = answer
        self._question = question
        self._documents = documents
        models = interaction.models
        self._replies = [(run, fold(run.text)) for run in models if run.text]
        self._arguments = [
            (run, fold(text))
            for run in models
            for arguments in run.tool_arguments
            for text in texts_in(arguments)
        ]
        self._prompts: dict[Run, str] = {}

    def tool_texts(self) -> tuple[list[Passage], list[Passage]]:
        sure: list[Passage] = []
        unsure: list[Passage] = []
        for p in self._found(Origin.TEXT):
            if p.found.named is False:
                continue
            run = p.found.run
            is_tool = run.kind is RunKind.TOOL
            kind = tool_kind(run.name, run.description) if is_tool else ToolKind.LOOKUP
            if p.found.named or (kind is ToolKind.LOOKUP and not _is_empty(p)):
                sure.append(p)
            elif kind is ToolKind.UNKNOWN and not _is_empty(p):
                unsure.append(p)
        return sure, unsure

    def step_texts(self, origin: Origin) -> list[Passage]:
        return [p for p in self._found(origin) if not self._was_asked(p)]

    def is_no_prompt(self, p: Passage) -> bool:
        return not self._was_asked(p) and not self._wrote(p)

    def _was_asked(self, p: Passage) -> bool:
        is_alone = len(p.found.contexts) == 1
        question = fold(self._question)
        masked = set[str]().union(*self._interaction.rewritten.values())
        return (
            p.folded in self._queries
            or (is_alone and p.folded in self._lone_prompts)
            or any(p.folded in text for text in self._input)
            or (is_distinctive(question) and question in p.folded)
            or any(one in p.context.text for one in masked)
        )

    @cached_property
    def _queries(self) -> set[str]:
        lists = self._interaction.lists_of(Origin.TEXT)
        # In old graphs, a step also returns a tool's result. The result still belongs to the tool.
        texts = {fold(context.text) for found in lists for context in found.contexts}
        return texts | {fold(run.query) for run in self._interaction.runs if run.query}

    @cached_property
    def _input(self) -> list[str]:
        return [fold(text) for text in self._interaction.asked]

    @cached_property
    def _lone_prompts(self) -> set[str]:
        return {fold(run.prompt[0]) for run in self._interaction.runs if len(run.prompt) == 1}

    def _found(self, origin: Origin) -> list[Passage]:
        return [
            p
            for p in distinct(self._interaction.lists_of(origin))
            if p.is_distinctive and not self._wrote(p) and not self._is_made_of_others(p)
        ]

    def _wrote(self, p: Passage) -> bool:
        is_step = p.found.run.kind is not RunKind.TOOL
        said = {text for _, text in self._said_before(p, with_arguments=is_step)}
        if any(p.folded in text for text in said):
            return True
        # A step may rearrange the parts of a reply, so half of the word sequences suffice.
        shared = set[str]().union(*(p.runs & runs_of(text) for text in said))
        return bool(p.runs) and 2 * len(shared) >= len(p.runs)

    def _is_made_of_others(self, p: Passage) -> bool:
        held = [one for one in self._documents if one.folded and one.folded in p.folded]
        length = sum(len(one.folded) for one in held)
        if any(one.is_distinctive for one in held) or 2 * length > len(p.folded):
            return True
        if len(p.found.contexts) > 1:
            return False
        others = (one for one in self._written if one.found is not p.found)
        parts = {one.folded for one in others if one.folded in p.folded} - {p.folded}
        lengths = sorted(map(len, parts))
        # If the rest is at least as long as the shortest part, it may be a retrieved text.
        return len(lengths) > 1 and len(p.folded) - sum(lengths) < lengths[0]

    @cached_property
    def _written(self) -> list[Passage]:
        lists = [found for found in self._interaction.lists if found.origin in _WRITTEN]
        return [p for p in distinct(lists) if p.is_distinctive]

    def _said_before(self, p: Passage, *, with_arguments: bool = True) -> Iterator[tuple[Run, str]]:
        run = p.found.run
        for model, text in (*self._replies, *(self._arguments if with_arguments else ())):
            if model.end is None or (run.end is not None and model.end > run.end):
                continue
            if run.kind is not RunKind.TOOL and run in model.ancestors():
                if model not in self._prompts:
                    self._prompts[model] = " ".join(map(fold, model.prompt))
                if p.folded in self._prompts[model]:
                    continue
            yield model, text

    def used(self, passages: Sequence[Passage], surer: Sequence[Passage]) -> list[Passage]:
        if not passages or refusal(self._answer):
            return []
        known = set[str]().union(*(content_words(p.context.text) for p in surer))
        new = content_words(self._answer) - known
        runs = runs_of(fold(self._answer)).difference(*(p.runs for p in surer))
        lists = by_list(passages)
        return [p for one in lists if self._are_used(one, new, runs) for p in one]

    def _are_used(self, passages: Sequence[Passage], new: set[str], runs: set[str]) -> bool:
        own = set[str]().union(*(content_words(p.context.text) for p in passages))
        for _, text in self._said_before(passages[0]):
            own -= content_words(text)
        if any(_is_most(said & own, said) for said in (new, new - content_words(self._question))):
            return True
        listed = set[str]().union(*(p.runs for p in passages))
        return bool(own) and len(runs & listed) >= min(MIN_RUNS, len(listed)) > 0


def _is_empty(p: Passage) -> bool:
    arguments = content_words(p.found.run.query or "")
    if arguments.issuperset(content_words(p.context.text)):
        return True
    rest, names = _RECEIPT.subn(" ", p.context.text)
    is_receipt = bool(names) and len(words(rest)) <= _RECEIPT_WORDS
    return is_receipt or _reports_nothing(p, arguments | _STOP)


def _reports_nothing(p: Passage, known: set[str]) -> bool:
    text, said = p.context.text, set(words(p.folded))
    if _FAILURE.match(text):
        return True
    if len(said) > _MAX_WORDS:
        return False
    if any(part in text.replace(" ", "") for part in _DATA["nothing"]["parts"]):
        return len(text) <= 2 * _MAX_WORDS
    left = said - _listed("nothing") - _listed("nothing", "about") - known
    return not said.isdisjoint(_listed("nothing")) and not left


def _is_most(found: set[str], said: set[str]) -> bool:
    return bool(found) and 2 * len(found) >= len(said) and (len(found) > 1 or found == said)


class ToolKind(Enum):
    LOOKUP = auto()
    """The tool returns search results."""
    ACTION = auto()
    """The tool acts, calculates, tells the time, makes plans or transfers the conversation."""
    UNKNOWN = auto()


_DATA: Final = toml_of("tool_words.toml", "rag_eval_hooks.capture")


@cache
def _listed(group: str, name: str = "words") -> frozenset[str]:
    return frozenset(_DATA[group][name].split())


_NAME_PART: Final = re.compile(r"[A-Z]+(?![a-z])|[A-Z]?[^\W\d_A-Z]+")
_SENTENCE: Final = re.compile(r"[.!?\n\u3002\uff01\uff1f]")
_SIGNATURE: Final = re.compile(r"^\w+\([^\n]*\)(?:\s*->[^\n]*)?\s*\n")
_ENDINGS: Final = ("ies", "es", "s", "ing", "ed", "t", "d", "n", "en")


def tool_kind(name: str, description: str) -> ToolKind:
    text = _SIGNATURE.sub("", description.strip())
    first = next((one for one in _SENTENCE.split(text) if one.strip()), "")
    for parts in (_NAME_PART.findall(name), _NAME_PART.findall(first)):
        kind = _kind_of([part.lower() for part in parts])
        if kind is not ToolKind.UNKNOWN:
            return kind
    return ToolKind.UNKNOWN


def _kind_of(words: list[str]) -> ToolKind:
    for place, word in enumerate(words):
        behind = words[place + 1 :]
        if _is_of(word, "lookup"):
            return ToolKind.ACTION if _is_time(behind) else ToolKind.LOOKUP
        if _is_one_of(word, _listed("action", "noun")) or word in _listed("time"):
            is_lookup = any(_is_of(one, "lookup") for one in behind)
            return ToolKind.LOOKUP if is_lookup else ToolKind.ACTION
        if _is_of(word, "action"):
            return ToolKind.ACTION
    return ToolKind.UNKNOWN


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
