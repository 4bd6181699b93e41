"""Where outcomes go."""

from rag_eval_hooks.sinks.base import CallableSink, FeedbackSink, Resumable, Sink, as_sink
from rag_eval_hooks.sinks.feedback_span import FeedbackSpanSink
from rag_eval_hooks.sinks.jsonl import JsonlSink

__all__ = [
    "CallableSink",
    "FeedbackSink",
    "FeedbackSpanSink",
    "JsonlSink",
    "Resumable",
    "Sink",
    "as_sink",
]
