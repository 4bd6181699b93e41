"""The public API as a typed application uses it. mypy reads the file, and nothing runs it."""

from __future__ import annotations

import asyncio
from collections.abc import Mapping
from typing import assert_type

from opentelemetry.sdk.trace import SpanProcessor, TracerProvider

import rag_eval_hooks as api
from rag_eval_hooks.errors import RedactionError
from rag_eval_hooks.explanation import Explanation
from rag_eval_hooks.findings import Support
from rag_eval_hooks.judges import TokenScorer
from rag_eval_hooks.judges.hugging_face import BertScorer, SentenceEmbedder
from rag_eval_hooks.judges.memo import Memo
from rag_eval_hooks.redaction.redactor import Match
from rag_eval_hooks.score import AnnotatorKind, Outcomes, result_id, score_id


def construct(inner: SpanProcessor, embedder: api.Embedder, scorer: TokenScorer) -> api.RagEval:
    api.RagEval("ragas", "heuristic", 0.5, "jsonl:scores.jsonl", sample_timeout=5.0, queue_size=10)
    api.RagEval(embedder="none", redact="all", tail=[api.TailSettings(then=("ragas",))])
    api.RagEval(
        judge=api.Cascade(api.DecisionJudge("systemone:http://localhost", window=9), "ollama:m")
    )
    api.RagEval(
        judge=api.OpenAIJudge("gpt-4o-mini", retries=1, memo=Memo("replies")),
        embedder=api.OpenAIEmbedder("text-embedding-3-small"),
        rules=(api.RuleSettings(rate=1.0, tags=("beta",)),),
        thresholds={"ragas.faithfulness": 0.8},
        redact=("all",),
        config_file="settings.toml",
    )
    api.RagEval(rules=[{"rate": 1.0, "tags": ["beta"]}], judge_headers={"X-Key": "secret"})
    evals = api.RagEval(
        metrics=[
            "ragas.faithfulness",
            api.Criterion("is polite", name="polite"),
            api.evaluator_metric(lambda outputs: True, id="own.check"),
        ],
        judge=api.CallableJudge(lambda messages: "yes"),
        sinks=[api.MemorySink(), api.JsonlSink("scores.jsonl"), deliver],
        config=api.RagEvalConfig(queue_size=10),
        embedder=embedder,
        token_scorer=scorer,
        redact=["email", api.Presidio(), api.Patterns({"CUSTOMER": r"C-\d+"})],
        tracer_provider=api.setup_tracing(console=True),
    )
    assert_type(evals.config.metrics, tuple[str, ...])
    assert_type(api.setup_tracing(), TracerProvider)
    assert_type(api.__version__, str)
    processor: SpanProcessor = api.RagEvalSpanProcessor(inner, evals)
    processor.shutdown()
    return evals


def use(evals: api.RagEval, sample: api.Sample) -> None:
    assert_type(evals.submit(sample), bool)
    assert_type(evals.evaluate(sample), Mapping[str, api.Score | api.NotScored])
    assert_type(asyncio.run(evals.aevaluate(sample)), Mapping[str, api.Score | api.NotScored])
    assert_type(evals.stats(), api.Stats)
    assert_type(evals.stats().dropped, Mapping[str, int])
    assert_type(evals.spooled(), Mapping[str, int])
    assert_type(evals.explain("id"), tuple[Explanation, ...])
    assert_type(evals.feedback("id", score=1.0, label="good", reference="r"), bool)
    with evals.interaction("question", metadata={"user_id": "u"}, tags=["a"], root="rag") as it:
        it.contexts(["text", api.Context(text="text")])
        it.answer("answer")
    with evals as same:
        assert_type(same, api.RagEval)
    assert_type(evals.flush(5.0) and evals.shutdown(1.0), bool)


async def deliver(sample: api.Sample, outcomes: Outcomes) -> None:
    assert_type(sample.contexts, tuple[api.Context, ...] | None)
    assert_type(sample.answer, str | None)
    assert_type(sample.status, api.Status)
    assert_type(result_id("id", outcomes), str)
    for name, outcome in outcomes.items():
        assert_type(score_id("id", name, outcome), str)
        assert_type(outcome, api.Outcome)
        if isinstance(outcome, api.Score):
            assert_type(outcome.value, float)
            assert_type(outcome.annotator_kind, AnnotatorKind)
        else:
            assert_type(outcome.cause, api.Cause)


class OwnSink:
    place = "own"

    def deliver(self, evaluation: api.Evaluation) -> None:
        assert_type(evaluation.sample, api.Sample)

    def feedback(self, feedback: api.Feedback) -> None:
        assert_type(feedback.score, float | None)

    def close(self) -> None:
        """Release nothing."""


class OwnRule:
    def matches(self, text: str) -> list[Match]:
        return []


def protocols(url: str) -> None:
    own: list[api.Sink] = [OwnSink(), api.MemorySink()]
    langfuse = api.LangfuseSink(url, public_key="p", secret_key="s")
    platforms = (langfuse, api.MlflowSink(url, token="t"), api.PhoenixSink(url, api_key="k"))
    findings = api.Findings(answer_claims=("a",), answer_support=(Support((True,)),))
    judges: list[api.Judge] = [
        api.ScriptedJudge(findings),
        api.HeuristicJudge(calibration="made.json"),
    ]
    embedder: api.Embedder = SentenceEmbedder()
    scorer: TokenScorer = BertScorer(layer=9)
    metric = api.Metric(
        id="own.length",
        score=lambda *_: api.Score(value=1.0, normalized=1.0),
        needs=frozenset(),
        scale=api.Scale(1, 5),
    )
    asked: api.AskedMetric = api.evaluator_metric(str, needs=[api.Field.ANSWER])
    api.RagEval([metric, asked], judges[0], 1.0, own, embedder=embedder, token_scorer=scorer)
    api.RagEval(redact=OwnRule(), sinks=[OwnSink(), *platforms])


def fail() -> str:
    try:
        api.RagEval(sample_rate=2.0)
    except api.ConfigError as error:
        assert_type(error.field, str)
    except (api.JudgeError, RedactionError) as error:
        wrong: api.RagEvalError = error
        return str(wrong)
    return ""
