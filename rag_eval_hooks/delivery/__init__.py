"""Sinks, and the queues through which an evaluator delivers results to sinks."""

from rag_eval_hooks.delivery.dispatch import AnySink, Dispatch, SinkSpec, sink_list
from rag_eval_hooks.delivery.jsonl import JsonlSink
from rag_eval_hooks.delivery.sink import Sink

__all__ = ["AnySink", "Dispatch", "JsonlSink", "Sink", "SinkSpec", "sink_list"]
