"""Interface of decision models: questions in, probabilities out."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Mapping
from typing import Any, Final, TypeAlias, TypeGuard

from rag_eval_hooks.calls import Caller, Operation
from rag_eval_hooks.judges.calls.context import Meter
from rag_eval_hooks.judges.calls.limits import CallLimits
from rag_eval_hooks.judges.chat import ModelAdapter
from rag_eval_hooks.prompts import ReplyError
from rag_eval_hooks.prompts.questions import Answer, Question

Questions: TypeAlias = Mapping[str, Question]
_ROUNDING: Final = 0.05
"""Tolerance for rounding of the sum of probabilities and of the chosen probability."""


class DecisionModel(ModelAdapter, ABC):
    """A decision model behind any client."""

    def __init__(
        self, name: str, limits: CallLimits, *, provider: str | None = None, scope: str = ""
    ) -> None:
        super().__init__(Caller(name, Operation.DECISION, provider), limits, scope=scope)

    async def decide(self, system: str, state: str, questions: Questions) -> list[Answer | None]:
        """Return the probabilities for each question, in order, or None for a rejected question.

        Raises:
            ReplyError: The reply contains no answers.
            JudgeError: The model is unreachable, timed out, or rejected the request.
        """
        texts = (system, state, *(text for _, text, _ in questions.values()))
        call = self._calls.make(lambda meter: self.ask(system, state, questions, meter), texts)
        answers = await call
        if isinstance(answers, list):
            # An answer counts only at the position of its question.
            pairs = zip(questions, answers, strict=False)
            answers = {k: a for k, a in pairs if isinstance(a, Mapping) and a.get("name") == k}
        if not isinstance(answers, Mapping):
            raise ReplyError("it holds no answers")
        return [_read(one, answers.get(name)) for name, one in questions.items()]

    @abstractmethod
    async def ask(self, system: str, state: str, questions: Questions, meter: Meter) -> Any:
        """Send one request through the meter, and return its answers as a list or mapping."""


def system_one(question: Question) -> dict[str, Any]:
    """Return a question in System One's format."""
    kind, text, options = question
    if kind == "predicate":
        return {"type": "noul", "instructions": text}
    criteria = dict.fromkeys(options) if kind == "choice" else list(options)
    return {"type": kind, "instructions": text, "criteria": criteria}


def _read(question: Question, answer: Any) -> Answer | None:
    """Return the probabilities. None if the model rejected the question or answered another."""
    kind, _, options = question
    if not isinstance(answer, Mapping):
        return None
    if kind == "predicate":
        name = {"predicate": "probability", "noul": "noul"}.get(answer.get("type", ""), "")
        value = answer.get(name)
        return (float(value),) if _is_probability(value) else None
    given, key = answer.get("probabilities"), "value" if kind == "choice" else "label"
    if isinstance(given, list):
        given = {row.get(key): row.get("probability") for row in given if isinstance(row, Mapping)}
    elif isinstance(given, Mapping) and kind == "score":
        numbers = {str(number): option for number, option in enumerate(options)}
        given = {numbers.get(str(number)): value for number, value in given.items()}
    if answer.get("type") != kind or not isinstance(given, Mapping) or {*given} != {*options}:
        return None
    values = tuple(given[option] for option in options)
    if not all(map(_is_probability, values)) or abs(sum(values) - 1) > _ROUNDING:
        return None
    top = max(values)
    chosen = given.get(answer.get("choice"), 0.0) if kind == "choice" else top
    return values if chosen >= top - _ROUNDING else None


def _is_probability(value: object) -> TypeGuard[float]:
    return isinstance(value, int | float) and not isinstance(value, bool) and 0 <= value <= 1
