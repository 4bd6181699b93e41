"""Roots that have ended, or never will: which of them are interactions."""

from __future__ import annotations

import asyncio
import contextlib
import logging
from collections import deque
from collections.abc import Callable

from opentelemetry import context as otel_context
from opentelemetry import trace
from opentelemetry.trace import format_trace_id

from rag_eval_hooks.capture.answer import answer_of
from rag_eval_hooks.capture.contexts import has_retrieved
from rag_eval_hooks.capture.manual_calls import ManualCalls, answers, is_step
from rag_eval_hooks.capture.records import Interaction, RunKind
from rag_eval_hooks.capture.resume import Suspensions
from rag_eval_hooks.capture.rewriting import replace_rewritten
from rag_eval_hooks.capture.snapshots import Snapshots
from rag_eval_hooks.capture.text_forms import fold
from rag_eval_hooks.feedback import id_of
from rag_eval_hooks.incidents import Incidents
from rag_eval_hooks.sample import Status

__all__ = ["Endings", "is_left"]

_logger = logging.getLogger("rag_eval_hooks")
_REMEMBERED = 10_000
"""Traces of requests without retrieved text that can be explained."""
_MANY = 1000
"""Ended roots that may wait before the threads that end roots help."""
_OF_EVENTS = ("contexts", "prompt")
_CHILDLESS = (
    "The run %r ended without any step that capture could see: callbacks in a constructor are not "
    "handed on. Pass them in the config of the call, or use RagEvalCallbackHandler.enable(evals)."
)
_UNRETRIEVED = (
    "A request was answered without retrieved text that capture can see, so it was not evaluated. "
    "If it did retrieve, name its search tools in retrieval_tools=, or call "
    "record_contexts(documents) where it searches. stats().without_retrieval counts such requests; "
    "see docs/capture.md, 'I see no sample'."
)


class Endings:
    """Reads and reports ended interactions, and counts answers without retrieved text."""

    def __init__(
        self,
        on_end: Callable[[Interaction], None],
        by_hand: ManualCalls,
        suspensions: Suspensions,
        incidents: Incidents,
    ) -> None:
        self._on_end = on_end
        self._by_hand = by_hand
        self._suspensions = suspensions
        self._incidents = incidents
        self._ended: deque[Interaction] = deque()
        self._traces: deque[str] = deque(maxlen=_REMEMBERED)
        self._warned_childless = False
        self._warned_unretrieved = False
        self._passed_over = 0

    @property
    def unretrieved(self) -> int:
        """Requests in which a model spoke and no retrieved text was seen."""
        return self._passed_over - self._by_hand.joined

    def explains(self, key: str) -> bool:
        """Return whether a request of a trace or run id was answered without retrieved text."""
        return key in self._traces

    def add(self, interaction: Interaction) -> bool:
        """Queue an ended root; return whether so many wait that threads should help."""
        self._ended.append(interaction)
        return len(self._ended) > _MANY

    def decide(self, most: int | None = None) -> None:
        """Read ended roots, all or at most some, and report the interactions among them."""
        with contextlib.suppress(IndexError):
            for _ in range(len(self._ended) if most is None else most):
                interaction = self._ended.popleft()
                try:
                    self._decide(interaction)
                except Exception as error:  # noqa: BLE001 - the host's edge: nothing is lost uncounted
                    self._incidents.report("capture ending", error)
                    self._on_end(Interaction(otel_context.get_current(), is_readable=False))

    def _decide(self, interaction: Interaction) -> None:
        interaction.read()
        replace_rewritten(interaction)
        interaction.snapshots = Snapshots()
        for run in interaction.runs:
            run.state = None
        _mark_unfinished(interaction)
        if interaction.resumable:
            self._suspensions.reduce(interaction)
        is_manual = interaction.root.kind is RunKind.MANUAL
        if not interaction.is_readable or is_manual or self._is_request(interaction):
            self._on_end(interaction)
        elif not _asks_nothing(interaction):
            self._pass_over(interaction)

    def _is_request(self, interaction: Interaction) -> bool:
        if is_step(interaction) or _asks_nothing(interaction):
            return False
        if interaction.retrieves is not None:
            return interaction.retrieves
        if not has_retrieved(interaction, answer_of(interaction)):
            return False
        # A retrieval outside of it has the texts of its steps undivided and with metadata.
        return not (interaction.is_joinable and self._by_hand.was_shown(interaction))

    def _pass_over(self, interaction: Interaction) -> None:
        self._by_hand.add(interaction)
        if _is_childless(interaction) and not self._warned_childless:
            self._warned_childless = True
            _logger.warning(_CHILDLESS, interaction.root.name)
        if not answers(interaction):
            return
        self._passed_over += 1
        self._traces.append(id_of(interaction.root.id))
        span = trace.get_current_span(interaction.otel).get_span_context()
        if span.is_valid:
            self._traces.append(format_trace_id(span.trace_id))
        # The calls by hand tell what to do about a model that was shown retrieved documents, and
        # a model that is called alone may rewrite the question for a retriever.
        is_alone = interaction.root.kind is RunKind.MODEL
        if self._warned_unretrieved or (is_alone and interaction.is_joinable):
            return
        if not self._by_hand.was_shown(interaction):
            self._warned_unretrieved = True
            _logger.warning(_UNRETRIEVED)


def _mark_unfinished(interaction: Interaction) -> None:
    """Close a request whose answering model did not finish; mark runs whose end was lost."""
    if interaction.status is not Status.OK:
        return
    unfinished = [run for run in interaction.runs if run.unfinished]
    models = [run for run in unfinished if run.kind is RunKind.MODEL]
    if models and _is_closed_early(interaction):
        interaction.status = Status.CLOSED
        return
    around = {outer for model in models for outer in model.ancestors()}
    if any(run not in around and run not in models for run in unfinished):
        interaction.left_out.update(_OF_EVENTS)


def _is_closed_early(interaction: Interaction) -> bool:
    """Return whether the model that still ran at the end may have been writing the answer.

    A model in the background, for example for a title, may run on when the answer of
    another one is out.
    """
    root = interaction.root
    if root.kind is RunKind.MANUAL and root.text is not None:
        return False
    models = [run for run in interaction.runs if run.kind is RunKind.MODEL]
    if not models[-1].unfinished:
        return False
    answer = fold(root.text or "")
    said = (fold(run.text) for run in models if run.text and not run.unfinished)
    return not any(text and text in answer and 2 * len(text) >= len(answer) for text in said)


def _asks_nothing(interaction: Interaction) -> bool:
    """Return whether a root has no question, no model and no retriever, as an indexing run."""
    kinds = (RunKind.RETRIEVER, RunKind.MODEL)
    root, ended_well = interaction.root, interaction.status is Status.OK
    return ended_well and not root.query and not any(r.kind in kinds for r in interaction.runs)


def _is_childless(interaction: Interaction) -> bool:
    """Return whether a chain that was passed a handler answered a question without any step."""
    root = interaction.root
    answered = interaction.passed and root.kind is RunKind.CHAIN and bool(root.query and root.text)
    return answered and len(interaction.runs) == 1


def is_left(interaction: Interaction) -> bool:
    """Return whether the task that began an open interaction will never end it.

    A stream may be read on by another task. A model's call by itself is never a sample, so that
    any end of its task is its end. A batch reports its beginning in a task of its own, which shows
    no cancellation: it goes on while somebody holds what its end is reported by.
    """
    held = interaction.task
    if held is None:
        return False
    if not isinstance(held, asyncio.AbstractEventLoop):
        if not held.done():
            return False
        if held.cancelled() or interaction.root.kind is RunKind.MODEL:
            return True
        # What it returned may be what the end is reported by.
        interaction.task = held = held.get_loop()
    return held.is_closed() or (interaction.id is not None and interaction.id() is None)
