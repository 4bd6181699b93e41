"""The public API as a strictly typed application uses it: read by mypy, never run.

Every public name stands here with the type that it promises.
"""

from __future__ import annotations

import asyncio
from collections.abc import Mapping
from typing import assert_type

from opentelemetry.sdk.trace import SpanProcessor, TracerProvider

from rag_eval_hooks import (
    AskedMetric,
    CallableJudge,
    Cascade,
    Cause,
    ConfigError,
    Context,
    Criterion,
    DecisionJudge,
    Embedder,
    Evaluation,
    Feedback,
    Field,
    Findings,
    HeuristicJudge,
    JsonlSink,
    Judge,
    JudgeError,
    LangfuseSink,
    MemorySink,
    Metric,
    MlflowSink,
    NotScored,
    OpenAIEmbedder,
    OpenAIJudge,
    Outcome,
    Patterns,
    PhoenixSink,
    Presidio,
    RagEval,
    RagEvalConfig,
    RagEvalError,
    RagEvalSpanProcessor,
    RuleSettings,
    Sample,
    Scale,
    Score,
    ScriptedJudge,
    Sink,
    Stats,
    Status,
    TailSettings,
    __version__,
    evaluator_metric,
    setup_tracing,
)
from rag_eval_hooks.delivery.sink import FeedbackSink
from rag_eval_hooks.errors import RedactionError
from rag_eval_hooks.explanation import Explanation
from rag_eval_hooks.findings import Support
from rag_eval_hooks.judges.base import TokenScorer
from rag_eval_hooks.judges.hugging_face import BertScorer, SentenceEmbedder
from rag_eval_hooks.judges.memo import Memo
from rag_eval_hooks.redaction.redactor import Match
from rag_eval_hooks.score import AnnotatorKind, Outcomes, result_id, score_id


def construct(inner: SpanProcessor, embedder: Embedder, scorer: TokenScorer) -> RagEval:
    RagEval("ragas", "heuristic", 0.5, "jsonl:scores.jsonl", sample_timeout=5.0, queue_size=10)
    RagEval(
        embedder="none",
        token_scorer="bert-score",
        redact="all",
        tail=[TailSettings(then=("ragas",))],
    )
    RagEval(judge=Cascade(DecisionJudge("systemone:http://localhost", band=(0.2, 0.8)), "ollama:m"))
    RagEval(
        judge=OpenAIJudge("gpt-4o-mini", retries=1, memo=Memo("replies")),
        embedder=OpenAIEmbedder("text-embedding-3-small"),
        rules=(RuleSettings(rate=1.0, tags=("beta",)),),
        thresholds={"ragas.faithfulness": 0.8},
        redact=("all",),
        config_file="settings.toml",
    )
    RagEval(rules=[{"rate": 1.0, "tags": ["beta"]}], judge_headers={"X-Key": "secret"})
    evals = RagEval(
        metrics=[
            "ragas.faithfulness",
            Criterion("is polite", name="polite"),
            evaluator_metric(lambda outputs: True, id="own.check"),
        ],
        judge=CallableJudge(lambda messages: "yes"),
        sinks=[MemorySink(), JsonlSink("scores.jsonl"), deliver],
        config=RagEvalConfig(queue_size=10),
        embedder=embedder,
        token_scorer=scorer,
        redact=["email", Presidio(), Patterns({"CUSTOMER": r"C-\d+"})],
        tracer_provider=setup_tracing(console=True),
    )
    assert_type(evals.config.metrics, tuple[str, ...])
    assert_type(setup_tracing(), TracerProvider)
    assert_type(__version__, str)
    processor: SpanProcessor = RagEvalSpanProcessor(inner, evals)
    processor.shutdown()
    return evals


def use(evals: RagEval, sample: Sample) -> None:
    assert_type(evals.submit(sample), bool)
    assert_type(evals.evaluate(sample), Mapping[str, Score | NotScored])
    assert_type(asyncio.run(evals.aevaluate(sample)), Mapping[str, Score | NotScored])
    assert_type(evals.stats(), Stats)
    assert_type(evals.stats().dropped, Mapping[str, int])
    assert_type(evals.spooled(), Mapping[str, int])
    assert_type(evals.explain("id"), tuple[Explanation, ...])
    assert_type(evals.feedback("id", score=1.0, label="good", reference="r"), bool)
    with evals.interaction("question", metadata={"user_id": "u"}, tags=["a"], root="rag") as it:
        it.contexts(["text", Context(text="text")])
        it.answer("answer")
    with evals as same:
        assert_type(same, RagEval)
    assert_type(evals.flush(5.0) and evals.shutdown(1.0), bool)


async def deliver(sample: Sample, outcomes: Outcomes) -> None:
    assert_type(sample.contexts, tuple[Context, ...] | None)
    assert_type(sample.answer, str | None)
    assert_type(sample.status, Status)
    assert_type(result_id("id", outcomes), str)
    for name, outcome in outcomes.items():
        assert_type(score_id("id", name, outcome), str)
        assert_type(outcome, Outcome)
        if isinstance(outcome, Score):
            assert_type(outcome.value, float)
            assert_type(outcome.annotator_kind, AnnotatorKind)
        else:
            assert_type(outcome.cause, Cause)


class OwnSink:
    place = "own"

    def deliver(self, evaluation: Evaluation) -> None:
        assert_type(evaluation.sample, Sample)

    def feedback(self, feedback: Feedback) -> None:
        assert_type(feedback.score, float | None)

    def close(self) -> None:
        """Release nothing."""


class OwnRule:
    def matches(self, text: str) -> list[Match]:
        return []


def protocols(url: str) -> None:
    own: list[Sink] = [OwnSink(), MemorySink()]
    langfuse = LangfuseSink(url, public_key="p", secret_key="s")
    platforms = (langfuse, MlflowSink(url, token="t"), PhoenixSink(url, api_key="k"))
    taking: FeedbackSink = OwnSink()
    findings = Findings(answer_claims=("a",), answer_support=(Support((True,)),))
    judges: list[Judge] = [ScriptedJudge(findings), HeuristicJudge(calibration="made.json")]
    embedder: Embedder = SentenceEmbedder(process=False)
    scorer: TokenScorer = BertScorer(layer=9)
    metric = Metric(
        id="own.length",
        score=lambda *_: Score(value=1.0, normalized=1.0),
        needs=frozenset(),
        scale=Scale(1, 5),
    )
    asked: AskedMetric = evaluator_metric(str, needs=[Field.ANSWER])
    RagEval([metric, asked], judges[0], 1.0, own, embedder=embedder, token_scorer=scorer)
    RagEval(redact=OwnRule(), sinks=[taking, *platforms])


def fail() -> str:
    try:
        RagEval(sample_rate=2.0)
    except ConfigError as error:
        assert_type(error.field, str)
    except (JudgeError, RedactionError) as error:
        wrong: RagEvalError = error
        return str(wrong)
    return ""
