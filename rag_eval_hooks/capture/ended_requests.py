"""Roots that have ended, or never will: which of them are interactions."""

from __future__ import annotations

import asyncio
import contextlib
import logging
from collections import deque
from collections.abc import Callable

from opentelemetry import trace
from opentelemetry.trace import format_trace_id

from rag_eval_hooks.capture.by_hand import CallsByHand
from rag_eval_hooks.capture.contexts.countable import countable, guesses
from rag_eval_hooks.capture.contexts.prompt_match import shown_in
from rag_eval_hooks.capture.contexts.text_forms import fold, is_telling_text
from rag_eval_hooks.capture.hand_calls import answers, asks_nothing, is_step
from rag_eval_hooks.capture.interaction import Interaction, Origin, RunKind
from rag_eval_hooks.feedback import id_of

__all__ = ["EndedRequests", "is_left"]

_logger = logging.getLogger("rag_eval_hooks")
_REMEMBERED = 10_000
"""Traces of requests without retrieved text that can be explained."""


_CHILDLESS = (
    "the run %r ended without any step that capture could see: callbacks in a constructor are not "
    "handed on; pass them in the config of the call, or use RagEvalCallbackHandler.enable(evals)"
)


class EndedRequests:
    """Reports ended interactions, and counts requests that were answered without retrieved text.

    Args:
        on_end: Called with every ended interaction.
        on_wait: Called when one waits for `decide`.
        by_hand: Retrievers and models that the application calls one by one.
    """

    def __init__(
        self,
        on_end: Callable[[Interaction], None],
        on_wait: Callable[[], object],
        by_hand: CallsByHand,
    ) -> None:
        self._on_end = on_end
        self._on_wait = on_wait
        self._by_hand = by_hand
        self._unsure: deque[Interaction] = deque()
        self._traces: deque[str] = deque(maxlen=_REMEMBERED)
        self._has_said_childless = False
        self._passed_over = 0

    @property
    def unretrieved(self) -> int:
        """Requests in which a model spoke and no retrieved text was seen."""
        return self._passed_over - self._by_hand.joined

    def add(self, interaction: Interaction) -> None:
        """Report an ended root, if it is an interaction. O(1) but for spans of other vendors."""
        kind = interaction.root.kind
        if not interaction.is_readable:
            self._on_end(interaction)
            return
        if kind is not RunKind.MANUAL and asks_nothing(interaction):
            return
        is_part = kind is not RunKind.MANUAL and is_step(interaction)
        if kind is RunKind.MANUAL or (interaction.retrieves and not is_part):
            self._on_end(interaction)
        elif interaction.retrieves is None and not is_part:
            # A search in prompts, which takes time that a request does not have.
            self._unsure.append(interaction)
            self._on_wait()
            if interaction.others is not None and interaction.others.span is not None:
                self.decide()
        else:
            self._pass_over(interaction)

    def decide(self) -> None:
        """Report those of the unsure roots in which something was retrieved."""
        with contextlib.suppress(IndexError):
            while True:
                interaction = self._unsure.popleft()
                if _has_retrieved(interaction) and not self._by_hand.was_shown(interaction):
                    self._on_end(interaction)
                else:
                    self._pass_over(interaction)

    def explains(self, key: str) -> bool:
        """Return whether a request of a trace or run id was answered without retrieved text."""
        return key in self._traces

    def _pass_over(self, interaction: Interaction) -> None:
        if self._by_hand.add(interaction):
            self._on_wait()
        if _is_childless(interaction) and not self._has_said_childless:
            self._has_said_childless = True
            _logger.warning(_CHILDLESS, interaction.root.name)
        if not answers(interaction):
            return
        self._passed_over += 1
        self._traces.append(id_of(interaction.root.id))
        span = trace.get_current_span(interaction.otel).get_span_context()
        if span.is_valid:
            self._traces.append(format_trace_id(span.trace_id))
        if self._passed_over == 1:
            _logger.info(
                "a request was answered without retrieved text that capture can see; counted as "
                "stats().without_retrieval; see docs/capture.md, 'I see no sample'"
            )


def _is_childless(interaction: Interaction) -> bool:
    """Return whether a chain that was passed a handler answered a question without any step."""
    root = interaction.root
    answered = interaction.passed and root.kind is RunKind.CHAIN and bool(root.query and root.text)
    return answered and len(interaction.runs) == 1


def _has_retrieved(interaction: Interaction) -> bool:
    """Return whether texts of tools or steps, or what the caller gave, were used as documents.

    Documents that the caller gave count if a model saw one, or could have; texts of tools if they
    are no echo; texts of steps if a model saw one. What is no retrieval is dropped.

    Args:
        interaction: An ended one in which nothing was surely retrieved.
    """
    prompt = " ".join(fold(text) for run in interaction.runs for text in run.prompt)
    given = interaction.lists_of(Origin.GIVEN)
    texts = [context.text for found in given for context in found.contexts]
    known = all(is_telling_text(text) for text in texts) and not interaction.left_out
    if given and prompt and known and not shown_in(prompt, given):
        interaction.lists = [f for f in interaction.lists if f.origin is not Origin.GIVEN]
    if countable(interaction, None):
        return True
    lists = map(interaction.lists_of, (Origin.STEP, Origin.EARLIER))
    guessed = (guesses(interaction, one) for one in lists)
    return bool(prompt) and any(found and shown_in(prompt, found) for found in guessed)


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
