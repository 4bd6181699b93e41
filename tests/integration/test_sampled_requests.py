"""Sampling with real parts: a LangChain chain, real spans, a judge over HTTP."""

from __future__ import annotations

import uuid
from typing import Any

import pytest
from langchain_core.documents import Document
from langchain_core.runnables import Runnable, RunnableLambda

from rag_eval_hooks import RagEval, RagEvalConfig
from rag_eval_hooks.judges.openai import OpenAIJudge
from rag_eval_hooks.testing import MemorySink
from rag_eval_hooks_langchain import RagEvalCallbackHandler
from tests.matrix.langchain.kit import Chat, joined
from tests.support.langchain_requests import Fixed
from tests.support.otel import Spans

FACT = "The quay opened in 1931."


def chain(answer: str = FACT, error: bool = False) -> Runnable[Any, str]:
    def finish(message: Any) -> str:
        if error:
            raise TimeoutError("the model's gateway")
        return str(message.content)

    found = Fixed(documents=[Document(FACT)]) | RunnableLambda(joined)
    return found | Chat(reply=lambda _: answer) | RunnableLambda(finish)


@pytest.fixture
def spans() -> Spans:
    return Spans()


def asked(evals: RagEval, *questions: str, **more: Any) -> None:
    for question in questions:
        told: Any = {"callbacks": [RagEvalCallbackHandler(evals)], **more}
        chain().invoke(question, told)
    assert evals.flush(300)


def test_rules_see_traits_of_a_chain(spans: Spans) -> None:
    rules = [
        {"error": "Timeout", "rate": 1.0, "name": "failed"},
        {"question": "(?i)refund", "rate": 1.0, "name": "refund"},
        {"answer": "sorry", "rate": 1.0, "name": "sorry"},
        {"metadata": {"session_id": "s1"}, "rate": 1.0, "name": "session"},
    ]
    config = RagEvalConfig(sample_rate=0.0, rules=rules)
    memory = MemorySink()
    metrics = ["lexical.source_citation", "ragas.context_precision"]
    with RagEval(metrics, sinks=[memory], config=config, tracer_provider=spans.provider) as evals:
        asked(evals, "hello", "My Refund?")
        asked(evals, "hello", metadata={"thread_id": "s1"})
        told: Any = {"callbacks": [RagEvalCallbackHandler(evals)]}
        chain("I am sorry.").invoke("hello", told)
        with pytest.raises(TimeoutError):
            chain(error=True).invoke("hello", told | {"metadata": {"reference": FACT}})
        assert evals.flush(300)
        decisions = evals.stats().decisions
        seen = [span.attributes or {} for span in spans.named("invoke_workflow")]
    reasons = ("failed", "refund", "sorry", "session")
    assert decisions == {"sampled_out": 1, **{f"rule:{name}": 1 for name in reasons}}
    assert {f"rule:{name}" for name in reasons} <= {str(a["rag.eval.sampled_by"]) for a in seen}
    outcomes = [one.value for one in memory.results[-1].outcomes.values()]
    assert [value is None for value in outcomes] == [True, False]


def test_feedback_finds_a_request_by_trace_and_by_run(spans: Spans) -> None:
    memory, run_id = MemorySink(), uuid.uuid4()
    with RagEval("lexical", sinks=[memory], tracer_provider=spans.provider) as evals:
        asked(evals, "When?", run_id=run_id)
        context = spans.one("invoke_workflow").context
        assert evals.feedback(f"{context.trace_id:032x}", score=1)
        assert evals.feedback(str(run_id), reference=FACT)
        assert evals.flush(300)
    assert len({(told.trace_id, told.sample_id) for told in memory.feedbacks}) == 1
    assert memory.results[1].outcomes["lexical.exact_match"].value == 1.0


def test_the_span_tells_why_it_has_no_scores(spans: Spans) -> None:
    rules = [{"question": "ping", "rate": 0.0, "name": "probes"}, {"question": "b", "rate": 1.0}]
    limited: Any = {"rate_limit": {"minute": 1}, "budget": {"calls_per_day": 0}}
    config = RagEvalConfig(sample_rate=0.0, rules=rules, embedder="none", **limited)
    judge, provider = OpenAIJudge("m", base_url="http://127.0.0.1:9", api_key="k"), spans.provider
    with RagEval("ragas.faithfulness", judge, config=config, tracer_provider=provider) as evals:
        asked(evals, "hello", "ping", "bill?", "boat?")
    seen = [span.attributes or {} for span in spans.named("invoke_workflow")]
    reasons = [a.get("rag.eval.reason") or a["rag.eval.sampled_by"] for a in seen]
    assert sorted(zip([a["rag.eval.status"] for a in seen], reasons, strict=True)) == [
        *(("dropped", "budget"), ("dropped", "rate_limit")),
        *(("sampled_out", "ratio"), ("sampled_out", "rule:probes")),
    ]
