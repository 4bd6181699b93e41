"""Where outcomes go."""

from rag_eval_hooks.delivery.jsonl import JsonlSink
from rag_eval_hooks.delivery.sink import CallableSink, FeedbackSink, Resumable, Sink, as_sink
from rag_eval_hooks.telemetry.feedback_span import FeedbackSpanSink

__all__ = [
    "CallableSink",
    "FeedbackSink",
    "FeedbackSpanSink",
    "JsonlSink",
    "Resumable",
    "Sink",
    "as_sink",
]
