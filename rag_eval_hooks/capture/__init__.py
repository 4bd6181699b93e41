"""Framework-free capture of RAG interactions; what integrations build on."""

from rag_eval_hooks.capture.assemble import assemble
from rag_eval_hooks.capture.edge import host_edge
from rag_eval_hooks.capture.others import OtherInstrumentors
from rag_eval_hooks.capture.recorder import Recorder
from rag_eval_hooks.capture.run import Facts, Interaction, Run, RunKind
from rag_eval_hooks.capture.spans import SpanWriter

__all__ = [
    "Facts",
    "Interaction",
    "OtherInstrumentors",
    "Recorder",
    "Run",
    "RunKind",
    "SpanWriter",
    "assemble",
    "host_edge",
]
