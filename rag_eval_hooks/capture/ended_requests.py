"""Requests that have ended and are not yet submitted for evaluation."""

from __future__ import annotations

import contextlib
import threading
from collections import deque
from collections.abc import Callable
from dataclasses import dataclass

from rag_eval_hooks.capture.interaction import Interaction
from rag_eval_hooks.capture.request_span import RequestSpan
from rag_eval_hooks.redaction import Session

__all__ = ["EndedRequest", "EndedRequests"]

_MOST = 1000
"""Requests that may wait for the background thread."""


@dataclass(frozen=True, slots=True)
class EndedRequest:
    """One ended request.

    Attributes:
        interaction: Everything that was recorded of it.
        session: Redacts its sample and its spans with the same placeholders.
        span: The span that stands for it.
    """

    interaction: Interaction
    session: Session
    span: RequestSpan


class EndedRequests:
    """Queue between the end of requests and their submission. Thread-safe; none is lost.

    Whether a request is evaluated, and by which rules, is decided off its thread: by whoever calls
    `drain`, or by the request that finds the queue full.

    Args:
        submit: Called with each request, one at a time and in order; handles its own exceptions.
    """

    def __init__(self, submit: Callable[[EndedRequest], None]) -> None:
        self._submit = submit
        self.forked()

    def forked(self) -> None:
        """Forget all: the parent of a forked process submits them."""
        self._waiting: deque[EndedRequest] = deque()
        # A rule of the application may ask for the statistics, which drains the queue again.
        self._submitting = threading.RLock()

    def add(self, request: EndedRequest) -> None:
        """Queue a request."""
        self._waiting.append(request)
        if len(self._waiting) > _MOST:
            self.drain()

    def drain(self) -> None:
        """Submit all. When it returns, those that another thread was submitting are, too."""
        with self._submitting, contextlib.suppress(IndexError):
            while True:
                self._submit(self._waiting.popleft())
