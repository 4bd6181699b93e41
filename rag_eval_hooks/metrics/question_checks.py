"""Question checks: metrics that search an answer for the facts that its question needs.

A TOML file defines the checks for each `question_id`. A check has the kind `list`, `facts` or
`calculation`.

Source: the chapter on question-specific metrics of "Evaluation Metrics Documentation".
"""

from __future__ import annotations

import re
import tomllib
from collections.abc import Mapping
from typing import Annotated, ClassVar, Final, Literal, Self, TypeAlias

from pydantic import (
    AfterValidator,
    BaseModel,
    ConfigDict,
    Field,
    TypeAdapter,
    ValidationError,
    model_validator,
)

from rag_eval_hooks.errors import ConfigError
from rag_eval_hooks.findings import Findings
from rag_eval_hooks.metrics.metric import Metric
from rag_eval_hooks.sample import Sample
from rag_eval_hooks.score import UNIT, Cause, NotScored, Outcome
from rag_eval_hooks.text.folding import fold
from rag_eval_hooks.text.key_terms import Keyword, Searched
from rag_eval_hooks.text.measures import numbers
from rag_eval_hooks.text.sentences import strip_marker

_SOURCE: Final = "Evaluation Metrics Documentation, question-specific metrics"
_HYPHENS: Final = str.maketrans(dict.fromkeys("\u2010\u2011\u2012\u2013\u2212", "-"))
_EMPHASIS: Final = re.compile(r"[*_`]{1,3}")
_ITEM_NAME: Final = re.compile(r"(?:\s[-\u2013\u2014]\s|:\s|:$)")


def _one_number(text: str) -> str:
    if len(numbers(text)) != 1:
        raise ValueError("one number, such as '604', '$1,000' or '-0.133%'")
    return text


_Text: TypeAlias = Annotated[str, Field(pattern=r"\S")]
_Words: TypeAlias = Annotated[str, Field(pattern=r"[^\W_]")]
_Number: TypeAlias = Annotated[str, AfterValidator(_one_number)]


class _Table(BaseModel):
    model_config = ConfigDict(
        extra="forbid", frozen=True, defer_build=True, coerce_numbers_to_str=True
    )


class Evidence(_Table):
    words: list[_Words] = []  # words or phrases, matched as whole words without regard to case
    numbers: list[_Number] = []  # matched in any notation, with the same sign and percent sign
    signs: list[_Text] = []  # arithmetic signs between two operands

    @model_validator(mode="after")
    def _not_empty(self) -> Self:
        if not (self.words or self.numbers or self.signs):
            raise ValueError("a table with one of the keys 'words', 'numbers' and 'signs'")
        return self

    def stands_in(self, answer: str) -> bool:
        keywords: list[Keyword] = [*self.words]
        keywords += [number for text in self.numbers for number in numbers(text)]
        held = any(map(Searched.of(answer).holds, keywords))
        return held or any(_computes(sign, answer) for sign in self.signs)


class _Check(_Table):
    value: ClassVar[str]
    summary: ClassVar[str]
    needs: ClassVar[tuple[str, ...]] = ("answer",)
    question_id: Annotated[str, Field(pattern=r"^[\w.-]+$")]

    def metric(self) -> Metric:
        return Metric(
            id=f"lexical.{self.question_id}.{self.value}",
            score=self._score,
            needs=self.needs,  # type: ignore[arg-type]
            summary=self.summary.format(self.question_id),
            source=_SOURCE,
        )

    def _score(self, sample: Sample, _findings: Findings) -> Outcome:
        if sample.question_id != self.question_id:
            return NotScored(Cause.MISSING_INPUT, "the check is for another question")
        return self._outcome(sample.answer or "", sample.reference or "")

    def _outcome(self, answer: str, reference: str) -> Outcome:
        raise NotImplementedError


class ListCheck(_Check):
    value = "rules_coverage"
    summary = "Share of the reference's list items that the answer to {} also lists."
    needs = ("answer", "reference")
    kind: Literal["list"]
    patterns: list[re.Pattern[str]] = []

    def _outcome(self, answer: str, reference: str) -> Outcome:
        expected, listed = self._items(reference), self._items(answer)
        if not expected:
            return NotScored(Cause.UNDEFINED, "the reference contains no list items")
        found = [item for item in expected if item in listed]
        value = len(found) / len(expected)
        counts = {"rules_found": float(len(found)), "total_rules": float(len(expected))}
        missing = [item for item in expected if item not in listed]
        explanation = {"found": found, "missing": missing}
        return UNIT.score(value, parts={**counts, self.value: value}, explanation=explanation)

    def _items(self, text: str) -> list[str]:
        # Asterisks of bullets resemble emphasis.
        text = re.sub(r"^(\s*)\*(?=\s)", r"\1-", text, flags=re.MULTILINE)
        found: list[str] = []
        for line in _EMPHASIS.sub("", text).translate(_HYPHENS).splitlines():
            matches = [
                fold(match[0])
                for pattern in self.patterns
                for match in re.finditer(pattern.pattern, line, re.IGNORECASE)
            ]
            found += matches or _listed(line.strip())
        return list(dict.fromkeys(found))


class FactsCheck(_Check):
    value = "fact_score"
    summary = "Share of the expected facts that the answer to {} states."
    kind: Literal["facts"]
    facts: Annotated[dict[str, Evidence], Field(min_length=1)]

    def _outcome(self, answer: str, reference: str) -> Outcome:
        held = {name: evidence.stands_in(answer) for name, evidence in self.facts.items()}
        value = self._value(held)
        fields = {**held, self.value: value}
        parts = {name: float(one) for name, one in fields.items()}
        label = str(value) if isinstance(value, bool) else None
        return UNIT.score(float(value), label=label, parts=parts, explanation=fields)

    def _value(self, held: Mapping[str, bool]) -> float:
        return sum(held.values()) / len(held)


class _Correct(_Table):
    holds: Annotated[list[_Text], Field(min_length=1)]
    lacks: list[_Text] = []


class CalculationCheck(FactsCheck):
    value = "is_correct"
    summary = "Whether the answer to {} has the right result."
    kind: Literal["calculation"]  # type: ignore[assignment]
    correct: _Correct

    @model_validator(mode="after")
    def _names_known(self) -> Self:
        if not self.facts.keys() >= {*self.correct.holds, *self.correct.lacks}:
            raise ValueError(f"a table that names only the facts {', '.join(self.facts)}")
        return self

    def _value(self, held: Mapping[str, bool]) -> float:
        lacks = any(held[name] for name in self.correct.lacks)
        return all(held[name] for name in self.correct.holds) and not lacks


Check: TypeAlias = ListCheck | FactsCheck | CalculationCheck


def parse_checks(text: str, file: str = "question_checks") -> tuple[Check, ...]:
    try:
        tables = tomllib.loads(text)
    except tomllib.TOMLDecodeError as error:
        raise ConfigError(
            file, "text that is not TOML", f"valid TOML (the parser says: {error})"
        ) from None
    for name, table in tables.items():
        if isinstance(table, dict):
            table["question_id"] = name
    adapter: TypeAdapter[dict[str, Check]] = TypeAdapter(
        dict[str, Annotated[Check, Field(discriminator="kind")]]
    )
    try:
        return tuple(adapter.validate_python(tables).values())
    except ValidationError as error:
        problem = error.errors(include_url=False)[0]
    # The second part of the path repeats the kind.
    path = ".".join(map(str, (problem["loc"][0], *problem["loc"][2:])))
    cause = problem.get("ctx", {}).get("error")
    wants = f"valid: {problem['msg']}" if cause is None else str(cause)
    raise ConfigError(f"{file}: {path}", problem["input"], wants)


def _listed(line: str) -> list[str]:
    item = strip_marker(line)
    if item == line or line.startswith("#"):
        return []
    name = fold(_ITEM_NAME.split(item)[0]).strip(" .,;:")
    return [name] if name else []


def _computes(sign: str, answer: str) -> bool:
    sign = re.escape(sign)
    between_numbers = rf"[0-9)%]\s?{sign}\s?[-+$\u20ac\u00a3(]*[0-9]"
    between_words = rf"[\w)%][ \t]+{sign}[ \t]+[\w($\u20ac\u00a3]"
    plain = answer.replace("**", "").replace("__", "").replace("`", "")
    return re.search(f"{between_numbers}|{between_words}", plain, re.IGNORECASE) is not None
