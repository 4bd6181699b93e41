"""Framework-free capture of RAG interactions; what integrations build on."""

from rag_eval_hooks.capture.assemble import assemble
from rag_eval_hooks.capture.assembler import Assembler
from rag_eval_hooks.capture.edge import host_edge
from rag_eval_hooks.capture.manual import ManualInteraction
from rag_eval_hooks.capture.others import OtherInstrumentors
from rag_eval_hooks.capture.recorder import Recorder
from rag_eval_hooks.capture.run import Facts, Interaction, Origin, Run, RunKind
from rag_eval_hooks.capture.spans import SpanWriter

__all__ = [
    "Assembler",
    "Facts",
    "Interaction",
    "ManualInteraction",
    "Origin",
    "OtherInstrumentors",
    "Recorder",
    "Run",
    "RunKind",
    "SpanWriter",
    "assemble",
    "host_edge",
]
