"""Delivery of results to sinks: one outbox for each."""

from rag_eval_hooks.delivery.delivery import AnySink, Delivery, SinkSpec, sink_list
from rag_eval_hooks.delivery.jsonl import JsonlSink
from rag_eval_hooks.delivery.sink import CallableSink, FeedbackSink, Resumable, Sink

__all__ = [
    "AnySink",
    "CallableSink",
    "Delivery",
    "FeedbackSink",
    "JsonlSink",
    "Resumable",
    "Sink",
    "SinkSpec",
    "sink_list",
]
