"""Captures RAG requests. Framework integrations build on this package."""

from rag_eval_hooks.capture.assembler import Assembler, traits_of_interaction
from rag_eval_hooks.capture.interaction import ManualInteraction
from rag_eval_hooks.capture.options import CaptureKeywords, CaptureOptions, Choice
from rag_eval_hooks.capture.recorder import Recorder
from rag_eval_hooks.capture.records import Facts, Interaction, Origin, Run, RunKind
from rag_eval_hooks.capture.spans import OtherInstrumentors, SpanWriter

__all__ = [
    "Assembler",
    "CaptureKeywords",
    "CaptureOptions",
    "Choice",
    "Facts",
    "Interaction",
    "ManualInteraction",
    "Origin",
    "OtherInstrumentors",
    "Recorder",
    "Run",
    "RunKind",
    "SpanWriter",
    "traits_of_interaction",
]
