"""Loads the prompt definition of each finding from `wording.toml`."""

from __future__ import annotations

from collections.abc import Mapping
from enum import StrEnum
from typing import Annotated, Any, Final

from pydantic import BeforeValidator
from pydantic.dataclasses import dataclass

from rag_eval_hooks.findings import Finding
from rag_eval_hooks.prompts import elements
from rag_eval_hooks.sample import Field
from rag_eval_hooks.text.folding import toml_of

WORDING: Final[Mapping[str, Any]] = toml_of("wording.toml", __package__)
PROMPTS_VERSION: Final[str] = WORDING["version"]
SYSTEM_TEXTS: Final[Mapping[str, str]] = {
    name: f"{WORDING['system']['common']}\n\n{text}"
    for name, text in WORDING["system"].items()
    if name != "common"
}


class PromptKind(StrEnum):
    DECOMPOSE = "decompose"
    VERIFY = "verify"
    RATE = "rate"
    GRADE = "grade"


class Unit(StrEnum):
    """The part of a sample to which one element of a model's reply refers."""

    WHOLE = "whole"
    SENTENCE = "sentence"
    TEXT = "text"
    CHUNK = "chunk"
    ITEM = "item"
    TEMPLATE = "template"

    @property
    def key(self) -> str | None:
        if self in (Unit.WHOLE, Unit.TEMPLATE):
            return None
        return self.value if self in (Unit.SENTENCE, Unit.CHUNK) else "id"


@dataclass(frozen=True, kw_only=True)
class Spec:
    call: PromptKind
    element: Annotated[Any, BeforeValidator(lambda name: getattr(elements, name))]
    shows: tuple[Field, ...]  # fields that the judge may see; the last field is `text`
    optional: frozenset[Field] = frozenset()
    unit: Unit = Unit.WHOLE
    about: Finding | None = None
    system: str
    instruction: str | list[str]
    question: str | None = None  # about one item, for a decision model; default: the instruction
    levels: tuple[float, ...] = ()  # possible ratings, lowest first

    @property
    def needs(self) -> frozenset[Field]:
        return frozenset(self.shows) - self.optional - {Field.QUESTION}

    @property
    def splits(self) -> bool:
        return self.call is PromptKind.VERIFY and Field.CONTEXTS in self.shows

    @property
    def is_decision(self) -> bool:
        return bool(self.question or self.levels)

    @property
    def text(self) -> Field:
        # The sample's field that the judge splits into items, or compares with given items.
        return self.shows[-1]


SPECS: Final[Mapping[Finding, Spec]] = {
    Finding(name): Spec(**row) for name, row in WORDING["findings"].items()
}
"""Definitions in the order of the calls. Calls with short replies fill the prompt cache first."""

ABOUT: Final[Mapping[Finding, Finding]] = {
    Finding.QUESTION_SIMILARITY: Finding.QUESTIONS,
    **{kind: spec.about for kind, spec in SPECS.items() if spec.about is not None},
}
"""Maps verdicts to the finding that lists the judged items. Verdicts and items share one order."""


def with_bases(kinds: frozenset[Finding]) -> frozenset[Finding]:
    return kinds | {ABOUT[kind] for kind in kinds if kind in ABOUT}
