"""An ended interaction, as it comes to the pipeline."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace

from rag_eval_hooks.decision import Traits
from rag_eval_hooks.feedback import id_of
from rag_eval_hooks.sample import Sample, Status
from rag_eval_hooks.telemetry.rag_span import HeldSpan

__all__ = ["Offer", "as_judged"]


@dataclass(frozen=True, slots=True, kw_only=True)
class Offer:
    """An ended interaction, before anything expensive was done with it.

    Attributes:
        key: What the sampler decides by: the trace id, or any unique id.
        status: How the interaction ended.
        sample: Builds the sample; called in the evaluator, only when it is sampled.
        size: Characters that it keeps in memory while it waits.
        held: The RAG span with its true end time, where one is recorded.
        traits: What rules go by; called only if there are rules.
        ids: By which a feedback finds it.
        trace_id: Of the RAG span, or None.
        span_id: The same.
    """

    key: str
    status: Status
    sample: Callable[[], Sample]
    size: int
    held: HeldSpan | None = None
    traits: Callable[[], Traits] = Traits
    ids: tuple[str, ...] = ()
    trace_id: str | None = None
    span_id: str | None = None

    @classmethod
    def of(cls, sample: Sample, build: Callable[[], Sample] | None = None) -> Offer:
        """The offer of a sample that exists already.

        Args:
            sample: What is decided about.
            build: Makes what is evaluated, where that is another one.
        """
        ids = filter(None, (sample.trace_id, sample.sample_id))
        return cls(
            key=id_of(sample.trace_id or sample.sample_id),
            status=sample.status,
            sample=build or (lambda: sample),
            size=sample.chars,
            traits=lambda: Traits.of(sample),
            ids=tuple(map(id_of, ids)),
            trace_id=sample.trace_id,
            span_id=sample.span_id,
        )


def as_judged(sample: Sample) -> Sample:
    """A sample as it is evaluated: what came of one that failed is no answer that anybody got."""
    return replace(sample, answer=None) if sample.status is Status.ERROR else sample
