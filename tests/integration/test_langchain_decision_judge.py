"""A LangChain decision model as a judge; the oldest supported LangChain has none."""

from __future__ import annotations

from typing import Any

import httpx
import pytest

from rag_eval_hooks import ConfigError, RagEval, Score
from tests.servers.decision_server import DecisionServer
from tests.support.corpus import samples

pytest.importorskip("langchain_core.decisions")
from langchain_core.decisions import BaseDecisionModel, ClassifierResponse

from rag_eval_hooks_langchain import LangChainDecisionJudge


class Served(BaseDecisionModel):
    """A LangChain decision model over the server."""

    url: str

    @property
    def _provider(self) -> str:
        return "test"

    def _classify(self, state: Any, questions: Any) -> ClassifierResponse:
        asked = {name: one.model_dump() for name, one in questions.items()}
        reply = httpx.post(f"{self.url}/systemone", json={"state": state, "questions": asked})
        return ClassifierResponse.model_validate(reply.raise_for_status().json())


def test_a_decision_model_of_langchain_gives_the_same_scores() -> None:
    metrics = ("ragas.faithfulness", "ragas.context_precision", "nvidia")
    scores = []
    with DecisionServer() as server:
        model = Served(model="m", url=server.url)
        for judge in (LangChainDecisionJudge(model), f"systemone:{server.url}"):
            with RagEval(metrics, judge, embedder="none") as evals:
                found = [evals.evaluate(one) for one in samples(3)]
            assert all(isinstance(one, Score) for outcomes in found for one in outcomes.values())
            scores.append([[getattr(one, "value", 0) for one in o.values()] for o in found])
        assert len(server.decisions()) == 6
    assert scores[0] == scores[1]
    with pytest.raises(ConfigError, match="LangChain decision model"):
        LangChainDecisionJudge("m")  # type: ignore[arg-type]
