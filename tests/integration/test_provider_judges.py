"""Judges of the providers that people have: each one's own client, over its own wire format."""

from __future__ import annotations

from typing import Any

import pytest

from rag_eval_hooks import NotScored, RagEval, RagEvalConfig
from rag_eval_hooks.calls import Usage
from rag_eval_hooks.judges import Judge, choose_judge
from rag_eval_hooks.score import Cause
from rag_eval_hooks_langchain import LangChainJudge
from tests.support.servers.faults import Fault, FaultKind
from tests.support.servers.provider_server import AZURE, ProviderServer
from tests.support.servers.samples import ONE

KEY = "test-key-0123456789"
PROVIDERS = {
    "openai": {"judge": "openai:test-model", "judge_api_key": KEY},
    "azure": {"judge": "azure:our-deployment"},
    "ollama": {"judge": "ollama:llama3.1"},
}


def provided(name: str, server: ProviderServer) -> Judge:
    if name == "anthropic":
        client = pytest.importorskip("langchain_anthropic")
        limits = {"api_key": KEY, "max_retries": 0}
        return LangChainJudge(
            client.ChatAnthropic(model="claude-test", base_url=server.root, **limits)
        )
    address = {} if name == "azure" else {"judge_base_url": server.url}
    return choose_judge(RagEvalConfig(**PROVIDERS[name], **address))  # type: ignore[arg-type]


@pytest.mark.filterwarnings("ignore:Inheritance class AiohttpClientSession:DeprecationWarning")
@pytest.mark.filterwarnings("ignore:unclosed:ResourceWarning")
@pytest.mark.parametrize(
    ("name", "schema"), [("azure", True), ("ollama", False), ("anthropic", True)]
)
def test_every_provider_gives_the_same_scores_and_tells_usage_and_status(
    name: str, schema: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    metrics = ("ragas.faithfulness", "ragas.context_recall", "whitepaper.correctness")
    texts: dict[str, Any] = {
        "contexts": list(ONE.chunks),
        "answer": ONE.answer,
        "reference": ONE.reference,
    }
    scores = []
    for faults in ([], [Fault(kind=FaultKind.RATE_LIMIT)]):
        with ProviderServer(json_schema=schema, faults=faults) as server:
            monkeypatch.setenv("AZURE_OPENAI_ENDPOINT", server.root)
            monkeypatch.setenv("AZURE_OPENAI_API_KEY", KEY)
            for provider in ("openai", name):
                with RagEval(metrics, provided(provider, server), embedder="none") as evals:
                    outcomes = evals.evaluate(question=ONE.question, **texts)
                if faults:
                    status = "HTTP 529" if provider == "anthropic" else "HTTP 429"
                    for one in outcomes.values():
                        assert isinstance(one, NotScored)
                        assert one.cause in (Cause.JUDGE_FAILED, Cause.JUDGE_UNAVAILABLE)
                    assert status in str(outcomes["ragas.faithfulness"])
                    continue
                used = sum((one.usage for one in outcomes.values()), start=Usage())
                assert used.input_tokens > 100
                assert used.output_tokens > 20
                scores.append({n: (o.value, o.explanation) for n, o in outcomes.items()})
            assert (AZURE in {call.path for call in server.requests}) is (name == "azure")
    assert scores[0] == scores[1]
    assert all(value is not None for value, _ in scores[0].values())
