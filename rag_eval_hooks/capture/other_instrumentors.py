"""Finds the spans that other instrumentors write for a request."""

from __future__ import annotations

from collections.abc import Callable
from typing import TypeAlias

from opentelemetry.trace import Span

from rag_eval_hooks.capture.records import Interaction, Others, Run, RunKind
from rag_eval_hooks.incidents import Incidents
from rag_eval_hooks.telemetry.other_span import OtherSpans

Find: TypeAlias = Callable[[Run], tuple[bool, Span | None]]


class OtherInstrumentors:
    # If false, no processor holds spans of other instrumentors until the scores exist.
    can_wait = True

    def __init__(self, mode: str, spans: OtherSpans, incidents: Incidents) -> None:
        self._wanted = mode in ("auto", "sampled", "none")
        self._spans = spans
        self._incidents = incidents

    def note(self, run: Run, find: Find) -> None:
        if not self._wanted:
            return
        interaction, top = run.interaction, _framework_root(run)
        others = interaction.others
        # Some instrumentors see the root late, or add their handler when a retriever starts.
        looks_again = others is None or (others.span is None and run.kind is RunKind.RETRIEVER)
        if top is run or not looks_again:
            return
        try:
            active, span = find(top)
            was_active = others is not None and others.active
            interaction.others = self._found(interaction, active or was_active, span, top)
        except Exception as error:  # noqa: BLE001 - other instrumentors' objects may raise anything
            self._incidents.report("other instrumentors", error)
            interaction.others = others or Others()

    def _found(self, interaction: Interaction, active: bool, span: Span | None, top: Run) -> Others:
        # In a manual interaction, the other instrumentor's span covers only part of the request.
        if span is None or top is not interaction.root or not self.can_wait:
            return Others(active)
        if not span.is_recording():
            return Others(active, unrecorded=span.get_span_context())
        return Others(active, self._spans.add(span, lambda: interaction.may_retrieve))


def _framework_root(run: Run) -> Run:
    while run.parent is not None and run.parent.kind is not RunKind.MANUAL:
        run = run.parent
    return run
