"""A judge over any decision model of LangChain."""

from __future__ import annotations

from typing import Any, Unpack

from langchain_core.decisions import BaseDecisionModel
from langchain_core.decisions.types import Question
from langsmith.run_helpers import tracing_context
from pydantic import TypeAdapter

from rag_eval_hooks.errors import ConfigError
from rag_eval_hooks.judges.calls.context import Meter
from rag_eval_hooks.judges.calls.limits import CallKeywords, CallLimits
from rag_eval_hooks.judges.decision_judge import DecisionJudge
from rag_eval_hooks.judges.decision_model import DecisionModel, Questions, system_one
from rag_eval_hooks.judges.memo import Memo
from rag_eval_hooks.judges.prices import Prices

__all__ = ["LangChainDecisionJudge"]

_QUESTIONS: TypeAdapter[dict[str, Any]] = TypeAdapter(dict[str, Question])


class _Keywords(CallKeywords, total=False):
    band: tuple[float, float]
    window: int
    memo: Memo | None
    prices: Prices | None


class _Model(DecisionModel):
    def __init__(self, model: BaseDecisionModel, limits: CallLimits) -> None:
        self._model, self._timeout = model, limits.timeout
        super().__init__(f"langchain:{model.model}", limits)

    async def ask(self, system: str, state: str, questions: Questions, meter: Meter) -> Any:
        asked = {name: system_one(one) for name, one in questions.items()}
        request: Any = {
            "state": f"{system}\n\n{state}",
            "questions": _QUESTIONS.validate_python(asked),
        }
        with tracing_context(enabled=False):
            async with meter.sending(self._timeout):
                reply = await self._model.ainvoke(request, {"callbacks": []})
        used: Any = reply.usage or {}
        meter.replied(used.get("input_tokens"), used.get("output_tokens"), model=reply.model)
        return reply.model_dump(include={"answers"})["answers"]

    async def aclose(self) -> None: ...


class LangChainDecisionJudge(DecisionJudge):
    """`DecisionJudge` over a decision model of LangChain, whose calls no callback sees.

    Args:
        model: The decision model; it needs langchain-core 1.8 or newer.
        **options: Fields of `CallLimits`, such as `timeout`, and keywords of `DecisionJudge`.

    Raises:
        ConfigError: The model is no decision model, or a value cannot be used.
    """

    def __init__(self, model: BaseDecisionModel, **options: Unpack[_Keywords]) -> None:
        if not isinstance(model, BaseDecisionModel):
            raise ConfigError("judge", type(model).__name__, "a decision model of LangChain")
        keywords: dict[str, Any] = {**options}
        super().__init__(_Model(model, CallLimits.taken_from(keywords)), **keywords)
