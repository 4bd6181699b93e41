"""Laws of the judges that people have: each provider's own client, over its own wire format."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

import pytest

from rag_eval_hooks import NotScored, RagEval, RagEvalConfig, Sample, Score
from rag_eval_hooks.judges import choose_judge
from rag_eval_hooks.judges.base import Judge
from rag_eval_hooks.sample import Context
from rag_eval_hooks.score import Cause
from rag_eval_hooks_langchain import LangChainJudge
from tests.servers.faults import Fault, FaultKind
from tests.servers.provider_server import AZURE, ProviderServer
from tests.servers.samples import ONE, spent

KEY = "test-key-0123456789"
METRICS = ("ragas.faithfulness", "ragas.context_recall", "whitepaper.correctness")
pytestmark = [
    # The clients' own: what one is made of, and connections that end with the user's model.
    pytest.mark.filterwarnings("ignore:Inheritance class AiohttpClientSession:DeprecationWarning"),
    pytest.mark.filterwarnings("ignore:unclosed:ResourceWarning"),
]
Make = Callable[[ProviderServer, pytest.MonkeyPatch], Judge]


def openai(server: ProviderServer, _patch: pytest.MonkeyPatch) -> Judge:
    config = RagEvalConfig(judge="openai:test-model", judge_base_url=server.url, judge_api_key=KEY)
    return choose_judge(config)


def azure(server: ProviderServer, patch: pytest.MonkeyPatch) -> Judge:
    patch.setenv("AZURE_OPENAI_ENDPOINT", server.root)
    patch.setenv("AZURE_OPENAI_API_KEY", KEY)
    return choose_judge(RagEvalConfig(judge="azure:our-deployment"))


def ollama(server: ProviderServer, _patch: pytest.MonkeyPatch) -> Judge:
    config = RagEvalConfig(judge="ollama:llama3.1", judge_base_url=server.url)
    return choose_judge(config)


def anthropic(server: ProviderServer, _patch: pytest.MonkeyPatch) -> Judge:
    client = pytest.importorskip("langchain_anthropic")
    return LangChainJudge(
        client.ChatAnthropic(model="claude-test", base_url=server.root, api_key=KEY, max_retries=0)
    )


COMPATIBLE: tuple[Make, ...] = (openai, azure, ollama)
BY_LANGCHAIN: tuple[Make, ...] = (anthropic,)
all_judges = pytest.mark.parametrize("make", [*COMPATIBLE, *BY_LANGCHAIN])


SAMPLE = Sample(
    question="When did the lighthouse of Varne open?",
    contexts=tuple(Context(text=chunk) for chunk in ONE.chunks),
    answer=ONE.answer,
    reference=ONE.reference,
)


def evaluated(judge: Judge) -> Mapping[str, object]:
    evals = RagEval(METRICS, judge=judge, embedder="none")
    try:
        outcomes = evals.evaluate(SAMPLE)
    finally:
        evals.shutdown(10)
    assert all(isinstance(one, Score) for one in outcomes.values()), outcomes
    return {n: (o.value, o.explanation) for n, o in outcomes.items() if isinstance(o, Score)}


@pytest.mark.parametrize("schema", [True, False], ids=["schema", "tool"])
@pytest.mark.parametrize("make", [*COMPATIBLE[1:], *BY_LANGCHAIN])
def test_every_provider_gives_the_same_scores(
    make: Make, schema: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    with ProviderServer(json_schema=schema) as server:
        expected = evaluated(openai(server, monkeypatch))
        before = len(server.requests)
        assert evaluated(make(server, monkeypatch)) == expected
        assert len(server.requests) == 2 * before


async def verified(judge: Judge) -> Any:
    try:
        return await ONE.by(judge)
    finally:
        await judge.aclose()


@all_judges
async def test_provider_that_stays_busy_is_told_by_its_status(
    make: Make, monkeypatch: pytest.MonkeyPatch
) -> None:
    with ProviderServer(faults=[Fault(kind=FaultKind.RATE_LIMIT)]) as server:
        finding = (await verified(make(server, monkeypatch))).answer_support
    assert isinstance(finding, NotScored)
    assert finding.cause is Cause.JUDGE_FAILED
    assert ("HTTP 529" if make is anthropic else "HTTP 429") in finding.detail


@all_judges
async def test_usage_matches_the_providers_count(
    make: Make, monkeypatch: pytest.MonkeyPatch
) -> None:
    with ProviderServer() as server:
        used = spent(await verified(make(server, monkeypatch)))
        paths = {call.path for call in server.requests}
    assert used.input_tokens > 100
    assert used.output_tokens > 20
    assert (paths == {AZURE}) is (make is azure)
