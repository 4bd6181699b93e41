"""The names that applications, dashboards and stored files depend on: they never change unseen."""

from __future__ import annotations

import json
from pathlib import Path

import rag_eval_hooks
from rag_eval_hooks import Context, RagEval, RagEvalConfig, Sample, semconv

PUBLIC = """
    AnnotatorKind AskedMetric BertScorer CallableJudge Cause ConfigError Context DeliverySettings
    Embedder Explanation Feedback FeedbackSink Field Findings JsonlSink Judge JudgeError
    JudgeSettings LangfuseSink LimitSettings Match Memo MemorySink Metric NotScored OpenAIEmbedder
    OpenAIJudge Outcome Outcomes Presidio PrivacySettings RagEval RagEvalConfig RagEvalError
    RagEvalSpanProcessor RedactionError Resumable RuleSettings Sample SamplingSettings Score
    ScoringSettings ScriptedJudge Sink Stats Status Support TailSettings TelemetrySettings
    TokenScorer __version__ evaluator_metric result_id score_id setup_tracing
"""
METHODS = """
    aevaluate evaluate explain feedback flush interaction offer shutdown spooled stats
"""
SETTINGS = """
    broker budget capture_content content_max_length embedder evaluation_span evaluator exit_timeout
    feedback_samples hold_timeout interaction_ttl judge judge_api_key judge_base_url
    judge_concurrency judge_headers judge_prices judge_retries judge_timeout max_text_chars
    metric_rates metrics model_process question_checks queue_size rate_limit redact redact_ids_key
    redact_patterns references references_threshold results rules sample_rate sample_timeout
    sink_keys sink_retry_for sink_timeout sinks spans spool spool_max_mb tail telemetry_details
    thresholds token_scorer variants weights
"""
TELEMETRY = """
    error.type gen_ai.agent.name gen_ai.conversation.id gen_ai.data_source.id
    gen_ai.evaluation.explanation gen_ai.evaluation.name gen_ai.evaluation.result
    gen_ai.evaluation.score.label gen_ai.evaluation.score.value gen_ai.input.messages
    gen_ai.operation.name gen_ai.output.messages gen_ai.provider.name gen_ai.request.model
    gen_ai.response.id gen_ai.response.model gen_ai.retrieval.documents gen_ai.retrieval.query.text
    gen_ai.retrieval.top_k gen_ai.system_instructions gen_ai.token.type gen_ai.tool.call.arguments
    gen_ai.tool.call.id gen_ai.tool.call.result gen_ai.tool.name gen_ai.tool.type
    gen_ai.usage.input_tokens gen_ai.usage.output_tokens gen_ai.workflow.name input.value
    openinference.span.kind output.value rag.eval.decision rag.eval.decisions rag.eval.duration
    rag.eval.duration_ms rag.eval.evaluated_at rag.eval.failed rag.eval.feedback
    rag.eval.held.capacity rag.eval.held.size rag.eval.incident rag.eval.incidents
    rag.eval.interactions.capacity rag.eval.interactions.size rag.eval.interactions.text
    rag.eval.judge.breaker.state rag.eval.judge.breakers rag.eval.judge.calls
    rag.eval.judge.concurrency.limit rag.eval.judge.concurrency.usage
    rag.eval.judge.concurrency.waiting rag.eval.judge.cost rag.eval.judge.duration
    rag.eval.judge.name rag.eval.judge.outcome rag.eval.judge.tokens rag.eval.omitted
    rag.eval.outcome rag.eval.pass rag.eval.queue.capacity rag.eval.queue.size rag.eval.queue.text
    rag.eval.reason rag.eval.refused rag.eval.sample_rate rag.eval.sample_rate_estimated
    rag.eval.sampled_by rag.eval.samples rag.eval.score rag.eval.spool.limit rag.eval.spool.size
    rag.eval.spool.usage rag.eval.status rag.eval.suite rag.eval.unscored rag.eval.version
    rag_eval_hooks retrieval.documents session.id user.id
"""
LINE = {
    "sample": "answer contexts question sample_id",
    "score": "annotator annotator_kind explanation normalised probability reason value version",
    "not_scored": "detail not_scored probability reason",
}


def test_public_names_are_stable() -> None:
    """The front door has these names, and `RagEval` these methods."""
    assert set(PUBLIC.split()) <= set(dir(rag_eval_hooks))
    assert all(callable(getattr(RagEval, name)) for name in METHODS.split())


def test_settings_are_stable_and_few() -> None:
    """There are these settings, in all groups together, and at most 48."""
    names = set(RagEvalConfig.model_fields)
    assert names == set(SETTINGS.split())
    assert len(names) <= 48


def test_names_in_telemetry_are_stable() -> None:
    """Spans, events and metrics have these names and attributes."""
    constants = [value for name, value in vars(semconv).items() if name.isupper()]
    assert set(TELEMETRY.split()) <= {value for value in constants if isinstance(value, str)}


def test_fields_of_stored_results_are_stable(tmp_path: Path) -> None:
    """A line of a JSONL sink has these fields."""
    path = tmp_path / "scores.jsonl"
    metrics = ["ragas.faithfulness", "ragas.answer_relevancy"]
    with RagEval(metrics, sinks=f"jsonl:{path}", embedder="none") as evals:
        text = "The ferry leaves at noon."
        evals.offer(Sample(question="When?", contexts=(Context(text=text),), answer=text))
        assert evals.flush(300)
    line = json.loads(path.read_text(encoding="utf-8"))
    scored, absent = (line["outcomes"][name] for name in metrics)
    assert set(line) >= {"outcomes", "result_id", "sample"}
    assert set(line["sample"]) >= set(LINE["sample"].split())
    assert set(scored) >= set(LINE["score"].split())
    assert set(absent) >= set(LINE["not_scored"].split())
