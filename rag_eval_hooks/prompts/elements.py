"""Pydantic models that define the JSON schema of a judge model's reply, and parse the reply."""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass
from functools import cached_property, lru_cache
from typing import Annotated, Any, Final, Literal, TypeAlias

from pydantic import (
    AfterValidator,
    BaseModel,
    BeforeValidator,
    ConfigDict,
    Field,
    TypeAdapter,
    ValidationError,
    WithJsonSchema,
)

from rag_eval_hooks.findings import (
    UNREAD,
    ChunkRelevance,
    ClaimVerdict,
    GEval,
    Questions,
    Rating,
    Support,
    Verdict,
)
from rag_eval_hooks.prompts.prompt import ReplyError, is_empty
from rag_eval_hooks.text.folding import fold

NOT_QUOTED: Final = "the judge's quote is in none of the texts"
NO_QUOTE: Final = "the judge gave no quote"
NO_REASON: Final = "the judge gave no reason"
_QUESTION_COUNT: Final = 3
_MOST_ITEMS: Final = 500  # only a runaway reply has a longer list
_NUMBER: Final = re.compile(r"\s*[+-]?[0-9]+(?:\.[0-9]+)?\s*")
_ELLIPSIS: Final = re.compile(r"\[?(?:\.{3,}|…)\]?")
_MARKS: Final = re.compile(r"[*_`\"'|>#]+")


class SpoiledGroupError(ReplyError):
    """One element of a list is invalid, so all elements may be wrong. The judge asks again."""


def number_of(value: Any) -> Any:
    if isinstance(value, bool):
        return None  # True equals 1, but is not a number.
    if isinstance(value, str) and _NUMBER.fullmatch(value):
        value = float(value)
    return int(value) if isinstance(value, float) and value.is_integer() else value


def _flag(value: Any) -> Any:
    return {"true": True, "false": False}.get(str(value).strip().lower(), value)


def _one_line(text: str) -> str:
    if is_empty(text) or "\n" in text.strip():
        raise ValueError("the text is empty or has more than one line")
    return text.strip()


def _word(value: Any) -> Any:
    return re.sub(r"[\s-]+", "_", value.strip(" .").lower()) if isinstance(value, str) else value


def _percent(value: float) -> float:
    if 0 < value < 1:
        raise SpoiledGroupError("the reply has a rating between 0 and 1, but the scale is 0 to 100")
    return value


WholeNumber: TypeAlias = Annotated[int, BeforeValidator(number_of)]
Number: TypeAlias = Annotated[float, BeforeValidator(number_of), Field(allow_inf_nan=False)]
Flag: TypeAlias = Annotated[bool, BeforeValidator(_flag)]
OptionalText: TypeAlias = Annotated[str, BeforeValidator(lambda v: "" if v is None else v)]
NonEmptyText: TypeAlias = Annotated[str, AfterValidator(_one_line)]
Percent: TypeAlias = Annotated[Number, Field(ge=0, le=100), AfterValidator(_percent)]
VerdictWord: TypeAlias = Annotated[
    Literal["supported", "contradicted", "not_stated"], BeforeValidator(_word)
]
Quarter: TypeAlias = Annotated[
    Number,
    Field(ge=0, le=1, multiple_of=0.25),
    WithJsonSchema({"type": "number", "enum": [0, 0.25, 0.5, 0.75, 1]}),
]
OneToFive: TypeAlias = Annotated[Literal[1, 2, 3, 4, 5], BeforeValidator(number_of)]
AccuracyRating: TypeAlias = Annotated[Literal[0, 2, 4], BeforeValidator(number_of)]
CoverageRating: TypeAlias = Annotated[Literal[0, 1, 2], BeforeValidator(number_of)]


@dataclass(frozen=True)
class View:
    texts: Mapping[int, str]
    chunks: int = 0

    @cached_property
    def _plain(self) -> Mapping[int, str]:
        return {number: _plain(text) for number, text in self.texts.items()}

    def quoted(self, quote: str) -> frozenset[int]:
        # An ellipsis may separate parts of different texts.
        parts = [part for part in map(_plain, _ELLIPSIS.split(quote)) if part]
        holding = [{n for n, text in self._plain.items() if part in text} for part in parts]
        return frozenset[int]().union(*holding) if all(holding) else frozenset()


def _plain(text: str) -> str:
    return " ".join(_MARKS.sub(" ", fold(text)).split()).strip(" .,;:")


def _closed(schema: dict[str, Any]) -> None:
    schema |= {"required": list(schema["properties"]), "additionalProperties": False}


class ReplyElement(BaseModel):
    # A reply with unknown keys may answer a different prompt.
    model_config = ConfigDict(
        strict=True, extra="forbid", frozen=True, defer_build=True, json_schema_extra=_closed
    )

    def content(self, _view: View) -> Any:
        return getattr(self, list(type(self).model_fields)[-1])

    @staticmethod
    def unread(_chunks: int) -> Any:
        return Verdict(False, UNREAD, sure=False)


class SentenceElement(ReplyElement):
    sentence: WholeNumber
    claims: list[NonEmptyText]


class StanceElement(ReplyElement):
    id: Literal["answer", "reference"]
    indistinct: Flag


class _NumberedText(ReplyElement):
    n: WholeNumber
    text: NonEmptyText


class EntityList(ReplyElement):
    items: Annotated[list[_NumberedText], Field(max_length=_MOST_ITEMS)]
    count: Annotated[WholeNumber, Field(ge=0, le=_MOST_ITEMS)]

    def content(self, _view: View) -> Any:
        ordered = sorted(self.items, key=lambda item: item.n)
        if [item.n for item in ordered] != list(range(1, self.count + 1)):
            raise ReplyError("the items are not numbered from 1 to the value of `count`")
        return tuple(dict.fromkeys(item.text for item in ordered))


class QuestionList(EntityList):
    noncommittal: Flag

    def content(self, view: View) -> Questions:
        texts = super().content(view)
        if len(texts) not in (0, _QUESTION_COUNT):
            raise ReplyError(f"give {_QUESTION_COUNT} different questions, or none")
        return Questions(texts, self.noncommittal)


class AgreementElement(ReplyElement):
    id: str
    quote: OptionalText = ""
    reason: OptionalText = ""
    verdict: VerdictWord

    def content(self, view: View) -> Any:
        flaw = self._flaw(view.quoted(self.quote))
        return Verdict(self.verdict == "supported", self.reason, warning=flaw)

    def _flaw(self, quoted: frozenset[int]) -> str:
        if not quoted and not is_empty(self.quote):
            return NOT_QUOTED
        if is_empty(self.quote) and self.verdict != "not_stated":
            return NO_QUOTE
        return NO_REASON if is_empty(self.reason) else ""


class SupportElement(AgreementElement):
    chunks: list[WholeNumber] = Field(default_factory=list)
    together: Flag = False

    def content(self, view: View) -> Support:
        if not {*self.chunks} <= view.texts.keys():
            raise SpoiledGroupError("the reply names a chunk number that does not exist")
        if self.together and len(view.texts) == 1:
            raise ReplyError("`together` must be false, because there is only one chunk")
        supporting = frozenset(self.chunks)
        together = self.together and not supporting
        if (self.verdict == "supported") != (together or bool(supporting)):
            raise ReplyError("set `chunks` or `together` if, and only if, a claim is supported")
        quoted = view.quoted(self.quote)
        if supporting and quoted and not quoted & supporting:
            raise ReplyError("none of the listed chunks contains the quote")
        return Support(
            tuple(number in supporting for number in range(1, view.chunks + 1)),
            together,
            self.reason,
            ClaimVerdict(self.verdict),
            self.quote,
            warning=self._flaw(quoted),
        )

    @staticmethod
    def unread(chunks: int) -> Support:
        return Support((False,) * chunks, reason=UNREAD, verdict=ClaimVerdict.UNSURE)


class RelevanceElement(ReplyElement):
    chunk: WholeNumber
    reason: OptionalText = ""
    useful: Flag
    rating: Percent

    def content(self, _view: View) -> ChunkRelevance:
        return ChunkRelevance(self.useful, self.rating, self.reason)

    @staticmethod
    def unread(_chunks: int) -> ChunkRelevance:
        return ChunkRelevance(False, 0.0, UNREAD, sure=False)


class EntityElement(ReplyElement):
    id: str
    reason: OptionalText = ""
    found: Flag

    def content(self, _view: View) -> Verdict:
        return Verdict(self.found, self.reason)


class _Reasoned(ReplyElement):
    reason: OptionalText = ""


class DirectnessElement(_Reasoned):
    value: Quarter


class StepElement(_Reasoned):
    value: OneToFive

    def content(self, _view: View) -> Rating:
        return Rating(float(self.value), self.reason)


class ClassElement(_Reasoned):
    correct: Flag

    def content(self, _view: View) -> Verdict:
        return Verdict(self.correct, self.reason)


class _Criterion(_Reasoned):
    score: Percent


class GEvalElement(ReplyElement):
    model_config = ConfigDict(extra="ignore")  # a model may add a total

    correctness: _Criterion
    completeness: _Criterion
    consistency: _Criterion

    def content(self, _view: View) -> GEval:
        criteria: list[tuple[str, _Criterion]] = list(self)
        reasons = (f"{name}: {one.reason}" for name, one in criteria if one.reason)
        return GEval(**{name: one.score for name, one in criteria}, reason="; ".join(reasons))


_adapter: Final = lru_cache(maxsize=64)(TypeAdapter)


def content_of(model: Any, value: Any, view: View) -> Any:
    # The message of a `ReplyError` must not quote the sample or the reply.
    try:
        element: Any = _adapter(model).validate_python(value, strict=True)
    except ValidationError as error:
        found = error.errors(include_url=False, include_context=False, include_input=False)
    else:
        return element.content(view) if isinstance(element, ReplyElement) else element
    if not isinstance(model, type):
        raise ReplyError(f"the value must be a number; {found[0]['msg'].lower()}")
    if any(misfit["type"] == "extra_forbidden" for misfit in found):
        raise ReplyError("the object has a key that the schema does not define")
    names = {str((*misfit["loc"], "object")[0]) for misfit in found}
    raise ReplyError(f"missing or invalid: {', '.join(sorted(names))}")
