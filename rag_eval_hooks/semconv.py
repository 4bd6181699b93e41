"""Names and values of the span attributes that this package writes.

OpenTelemetry may still change its `gen_ai.*` constants, so this module does not import them.
"""

from __future__ import annotations

from enum import StrEnum
from typing import Final

TRACER_NAME: Final = "rag_eval_hooks"
SCHEMA_URL: Final = "https://opentelemetry.io/schemas/gen-ai/1.42.0"

# OpenTelemetry, general and GenAI
ERROR_TYPE: Final = "error.type"
SESSION_ID: Final = "session.id"
USER_ID: Final = "user.id"
SERVER_ADDRESS: Final = "server.address"
SERVER_PORT: Final = "server.port"
GEN_AI_OPERATION_NAME: Final = "gen_ai.operation.name"
GEN_AI_WORKFLOW_NAME: Final = "gen_ai.workflow.name"
GEN_AI_CONVERSATION_ID: Final = "gen_ai.conversation.id"
GEN_AI_PROVIDER_NAME: Final = "gen_ai.provider.name"
GEN_AI_REQUEST_MODEL: Final = "gen_ai.request.model"
GEN_AI_REQUEST_STREAM: Final = "gen_ai.request.stream"
GEN_AI_REQUEST_TEMPERATURE: Final = "gen_ai.request.temperature"
GEN_AI_RESPONSE_MODEL: Final = "gen_ai.response.model"
GEN_AI_RESPONSE_ID: Final = "gen_ai.response.id"
GEN_AI_FINISH_REASONS: Final = "gen_ai.response.finish_reasons"
GEN_AI_INPUT_TOKENS: Final = "gen_ai.usage.input_tokens"
GEN_AI_OUTPUT_TOKENS: Final = "gen_ai.usage.output_tokens"
GEN_AI_DATA_SOURCE_ID: Final = "gen_ai.data_source.id"
GEN_AI_RETRIEVAL_TOP_K: Final = "gen_ai.retrieval.top_k"
GEN_AI_RETRIEVAL_QUERY: Final = "gen_ai.retrieval.query.text"
GEN_AI_RETRIEVAL_DOCUMENTS: Final = "gen_ai.retrieval.documents"
GEN_AI_AGENT_NAME: Final = "gen_ai.agent.name"
GEN_AI_INPUT_MESSAGES: Final = "gen_ai.input.messages"
GEN_AI_OUTPUT_MESSAGES: Final = "gen_ai.output.messages"
GEN_AI_SYSTEM_INSTRUCTIONS: Final = "gen_ai.system_instructions"
GEN_AI_TOOL_NAME: Final = "gen_ai.tool.name"
GEN_AI_TOOL_TYPE: Final = "gen_ai.tool.type"
GEN_AI_TOOL_CALL_ID: Final = "gen_ai.tool.call.id"
GEN_AI_TOOL_ARGUMENTS: Final = "gen_ai.tool.call.arguments"
GEN_AI_TOOL_RESULT: Final = "gen_ai.tool.call.result"
GEN_AI_EVALUATION_EVENT: Final = "gen_ai.evaluation.result"
GEN_AI_EVALUATION_NAME: Final = "gen_ai.evaluation.name"
GEN_AI_EVALUATION_SCORE: Final = "gen_ai.evaluation.score.value"
GEN_AI_EVALUATION_LABEL: Final = "gen_ai.evaluation.score.label"
GEN_AI_EVALUATION_EXPLANATION: Final = "gen_ai.evaluation.explanation"
GEN_AI_TOKEN_TYPE: Final = "gen_ai.token.type"

# OpenInference, for Phoenix
OPENINFERENCE_SPAN_KIND: Final = "openinference.span.kind"
INPUT_VALUE: Final = "input.value"
OUTPUT_VALUE: Final = "output.value"
RETRIEVAL_DOCUMENTS: Final = "retrieval.documents"

# Our own
EVAL_STATUS: Final = "rag.eval.status"
EVAL_FAILED: Final = "rag.eval.failed"
EVAL_UNSCORED: Final = "rag.eval.unscored"
EVAL_SCREENING: Final = "rag.eval.screening"
EVAL_SAMPLED_BY: Final = "rag.eval.sampled_by"
EVAL_REASON: Final = "rag.eval.reason"
EVAL_EXPLANATION: Final = "rag.eval.explanation"
EVAL_EVALUATED_AT: Final = "rag.eval.evaluated_at"
EVAL_DURATION_MS: Final = "rag.eval.duration_ms"
EVAL_RISK: Final = "rag.eval.risk"
EVAL_SAMPLE_RATE: Final = "rag.eval.sample_rate"
EVAL_SAMPLE_RATE_ESTIMATED: Final = "rag.eval.sample_rate_estimated"
EVAL_VERSION: Final = "rag.eval.version"
EVAL_PASS: Final = "rag.eval.pass"
EVAL_OMITTED: Final = "rag.eval.omitted"
EVAL_CONTEXT_SOURCE: Final = "rag.eval.context_source"
EVAL_QUESTION_SOURCE: Final = "rag.eval.question_source"
EVAL_TRUNCATED: Final = "rag.eval.truncated"
EVAL_SUITE: Final = "rag.eval.suite"
EVAL_OUTCOME: Final = "rag.eval.outcome"
EVAL_JUDGE: Final = "rag.eval.judge.name"
EVAL_JUDGE_OUTCOME: Final = "rag.eval.judge.outcome"
EVAL_BREAKER: Final = "rag.eval.judge.breaker.state"
EVAL_POWER: Final = "rag.eval.power"

_COMPOSITES: Final = {"graphrag.ragas_score": "graphrag", "whitepaper.weighted_score": "whitepaper"}


class EvalStatus(StrEnum):
    """Values of `rag.eval.status`: whether a RAG span has scores, or why not."""

    OK = "ok"
    PARTIAL = "partial"  # some metrics have no score; `rag.eval.unscored` lists these metrics
    ERROR = "error"  # no metric has a score
    TIMEOUT = "timeout"  # the scores did not arrive within `hold_timeout` seconds
    OVERFLOW = "overflow"  # too many RAG spans waited for scores
    FORK = "fork"
    SHUTDOWN = "shutdown"
    DROPPED = "dropped"  # not evaluated; `rag.eval.reason` states the reason
    SAMPLED_OUT = "sampled_out"
    SHIPPED = "shipped"  # a worker evaluates, and writes scores on a span below the RAG span
    ABANDONED = "abandoned"  # the request did not finish within ten minutes


def eval_key(metric_id: str, field: str) -> str:
    return f"rag.eval.{_COMPOSITES.get(metric_id, metric_id)}.{field}"


def evaluation(index: int, field: str) -> str:
    # attribute key by OpenInference's conventions
    return f"evaluations.{index}.evaluation.{field}"
