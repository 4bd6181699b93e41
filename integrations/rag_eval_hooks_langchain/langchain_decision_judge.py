"""`LangChainDecisionJudge`: the judge is a LangChain model that returns probabilities."""

from __future__ import annotations

from typing import Any

from langchain_core.decisions import BaseDecisionModel
from langchain_core.decisions.types import Question
from pydantic import TypeAdapter

from rag_eval_hooks.calls import Caller, Operation
from rag_eval_hooks.errors import ConfigError
from rag_eval_hooks.judges.decision_judge import DecisionJudge
from rag_eval_hooks.judges.decision_model import DecisionModel, Questions
from rag_eval_hooks.judges.model_calls import CallLimits, Meter
from rag_eval_hooks_langchain.langchain_judge import unseen

_QUESTIONS: TypeAdapter[dict[str, Any]] = TypeAdapter(dict[str, Question])


class LangChainDecisionModel(DecisionModel):
    def __init__(self, model: BaseDecisionModel, limits: CallLimits) -> None:
        self._model = model
        self._blocks = type(model)._aclassify is BaseDecisionModel._aclassify
        super().__init__(Caller(f"langchain:{model.model}", Operation.DECISION), limits)

    async def ask(self, system: str, state: str, questions: Questions, meter: Meter) -> Any:
        asked = _QUESTIONS.validate_python(questions)
        request: Any = {"state": f"{system}\n\n{state}", "questions": asked}
        reply = await unseen(self, self._model, request, meter, blocks=self._blocks)
        used: Any = reply.usage or {}
        meter.replied(used.get("input_tokens"), used.get("output_tokens"), model=reply.model)
        return reply.model_dump(include={"answers"})["answers"]


class LangChainDecisionJudge(DecisionJudge):
    """Uses a LangChain decision model, which returns probabilities, as the judge.

    LangChain callbacks do not see the judge's calls.

    Args:
        model: The decision model. Decision models need langchain-core 1.8 or newer.
        **options: Fields of `CallLimits`, such as `timeout`, and keywords of `DecisionJudge`.

    Raises:
        ConfigError: The model is not a decision model, or a value is invalid.
    """

    def __init__(self, model: BaseDecisionModel, **options: Any) -> None:
        if not isinstance(model, BaseDecisionModel):
            raise ConfigError("judge", type(model).__name__, "a LangChain decision model")
        limits, others = CallLimits.split(options)
        super().__init__(LangChainDecisionModel(model, limits), **others)
