"""Where outcomes go."""

from rag_eval_hooks.sinks.base import CallableSink, Resumable, Sink, as_sink
from rag_eval_hooks.sinks.jsonl import JsonlSink

__all__ = ["CallableSink", "JsonlSink", "Resumable", "Sink", "as_sink"]
