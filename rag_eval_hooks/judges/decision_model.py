"""Adapters of decision models. A decision model answers questions with probabilities."""

from __future__ import annotations

import json
from abc import ABC, abstractmethod
from collections.abc import Mapping, Sequence
from typing import Annotated, Any, Final, TypeAlias

from pydantic import Field, TypeAdapter

from rag_eval_hooks.calls import Caller, Operation
from rag_eval_hooks.errors import ConfigError
from rag_eval_hooks.judges.chat import ModelAdapter
from rag_eval_hooks.judges.model_calls import Meter
from rag_eval_hooks.prompts.prompt import ReplyError

Question: TypeAlias = dict[str, Any]  # in System One's format; contains no texts of the sample
Answer: TypeAlias = tuple[float, ...]  # probability of a statement, or of each option
Questions: TypeAlias = Mapping[str, Question]
_Probability: TypeAlias = Annotated[float, Field(strict=True, ge=0, le=1)]
_PROBABILITIES: Final = TypeAdapter(tuple[_Probability, ...])
_STATEMENTS: Final = {"noul": "noul", "predicate": "probability"}
_ROUNDING: Final = 0.05  # tolerance for the sum of rounded probabilities
_TYPESAFE: Final = "https://api.typesafe.ai/v1"


class DecisionModel(ModelAdapter, ABC):
    async def complete(self, system: str, state: str, questions: Sequence[Question]) -> str:
        """Return a JSON list with the probabilities for each question, in order.

        If the model's answer to a question is invalid, the list contains null.
        """
        named = {str(number): one for number, one in enumerate(questions, start=1)}
        texts = (system, state, *(one["instructions"] for one in questions))
        answers = await self.call(lambda m: self.ask(system, state, named, m), texts)
        if isinstance(answers, list):
            # An answer counts only if its name is the question's name.
            pairs = zip(named, answers, strict=False)
            answers = {k: a for k, a in pairs if isinstance(a, Mapping) and a.get("name") == k}
        if not isinstance(answers, Mapping):
            raise ReplyError("the reply has no answers")
        return json.dumps([_read(one, answers.get(name)) for name, one in named.items()])

    @abstractmethod
    async def ask(self, system: str, state: str, questions: Questions, meter: Meter) -> Any:
        pass


class DecisionEndpoint(DecisionModel):
    def __init__(self, name: str, keywords: Mapping[str, Any]) -> None:
        # Only OpenAI's client can send these requests. LangChain's models cannot.
        from rag_eval_hooks.judges.openai import ClientOptions, Endpoint

        kind, _, model = name.partition(":")
        if kind not in ("openai-decisions", "systemone") or not model:
            wants = "'openai-decisions:<model>' or 'systemone:<model or url>'"
            raise ConfigError("model", name, wants)
        self._is_openai = kind == "openai-decisions"
        self._model = {} if "://" in model else {"model": model}
        address = {} if self._is_openai else {"base_url": _root(keywords, model)}
        options = ClientOptions.of({**keywords, **address})
        hosted = "typesafe" if options.base_url == _TYPESAFE else None
        provider = "openai" if self._is_openai else hosted
        caller = Caller(name, Operation.DECISION, provider)
        super().__init__(caller, options, scope=str(options.base_url), endpoint=Endpoint(options))

    async def ask(self, system: str, state: str, questions: Questions, meter: Meter) -> Any:
        body: dict[str, Any]
        # The client's method `decisions` needs openai 3, so we use the low-level `post`.
        if self._is_openai:
            messages = [{"role": "system", "content": system}, {"role": "user", "content": state}]
            asked = [_openai(name, one) for name, one in questions.items()]
            path, body = "/decisions", {"input": messages, "questions": asked}
        else:
            path, body = "/systemone", {"state": f"{system}\n\n{state}", "questions": questions}
        reply = await self._endpoint.post(path, {**self._model, **body}, meter)
        return reply.get("answers") if isinstance(reply, dict) else None


def _openai(name: str, question: Question) -> dict[str, Any]:
    kind, options = question["type"], question.get("criteria", ())
    asked = {"type": kind, "name": name, "instructions": question["instructions"]}
    if kind == "noul":
        return {**asked, "type": "predicate"}
    key, label = ("choices", "value") if kind == "choice" else ("levels", "label")
    return {**asked, key: [{label: option} for option in options]}


def _root(keywords: Mapping[str, Any], model: str) -> str | None:
    address = model if "://" in model else keywords.get("base_url")
    if address is None:
        return _TYPESAFE if keywords.get("api_key") else None
    return f"{address.rstrip('/').removesuffix('/systemone').removesuffix('/v1')}/v1"


def _read(question: Question, answer: Any) -> Answer | None:
    kind, options = question["type"], [*question.get("criteria", ())]
    try:
        if kind == "noul":
            return _PROBABILITIES.validate_python((answer[_STATEMENTS[answer["type"]]],))
        shares = answer["probabilities"]
        if isinstance(shares, list):
            shares = {row.get("label") or row["value"]: row["probability"] for row in shares}
        elif kind == "score":
            positions = {str(at): option for at, option in enumerate(options)}
            shares = {positions[str(at)]: share for at, share in shares.items()}
        values = _PROBABILITIES.validate_python(tuple(shares[option] for option in options))
        chosen = values[options.index(answer["choice"])] if kind == "choice" else max(values)
        is_asked = answer["type"] == kind
    except (AttributeError, LookupError, TypeError, ValueError):
        return None
    is_whole = len(shares) == len(options) and abs(sum(values) - 1) <= _ROUNDING
    is_valid = is_asked and is_whole and chosen >= max(values) - _ROUNDING
    return values if is_valid else None
