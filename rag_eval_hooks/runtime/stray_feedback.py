"""Feedback on requests that this process does not know: another worker may have answered."""

from __future__ import annotations

import json
import re
import time
from collections import deque
from collections.abc import Callable
from dataclasses import asdict, replace
from typing import Any, Final

from rag_eval_hooks.delivery.outbox import Consumer, Job, Outbox
from rag_eval_hooks.delivery.outbox_file import FEEDBACK
from rag_eval_hooks.feedback import Feedback
from rag_eval_hooks.incidents import Incidents

__all__ = ["StrayFeedback"]

_TRACE_ID: Final = re.compile(r"[0-9a-f]{32}")
_CAPACITY: Final = 64
_PAUSE_S: Final = 1.0
"""Seconds in which the other processes may look at a feedback that this one has released."""
_PATIENCE_S: Final = 60.0
"""Seconds in which the process that has the request may join it."""
_MOST_WAITING: Final = 1000
"""Feedback of this process that waits at once: made-up ids must not fill the spool."""


class StrayFeedback:
    """Passes feedback on to the process that has its request, through the spool.

    Without a spool, and after a minute, feedback reaches the sinks alone, with the id that it
    names. Thread-safe; `take` runs in the outbox's thread.

    Args:
        outbox: Keeps feedback where it is durable.
        join: Joins feedback with the request of an id; returns None if that is unknown.
        deliver: Hands feedback to the sinks.
        incidents: Counts feedback that cannot be read.
    """

    def __init__(
        self,
        outbox: Outbox,
        join: Callable[[str, Feedback], bool | None],
        deliver: Callable[[Feedback], None],
        incidents: Incidents,
    ) -> None:
        self._outbox = outbox
        self._join = join
        self._deliver = deliver
        self._incidents = incidents
        self._left: deque[float] = deque()
        self._look_at = 0.0
        outbox.consume(FEEDBACK, Consumer(self._capacity, self.take))

    def _capacity(self) -> int:
        return _CAPACITY if time.monotonic() >= self._look_at else 0

    def pass_on(self, name: str, feedback: Feedback) -> str:
        """Leave a feedback to other processes, or deliver it alone.

        Returns:
            What became of it: `passed_on`, `alone`, or `unknown` for a blank id.
        """
        if not name:
            return "unknown"
        now = time.monotonic()
        while self._left and self._left[0] < now - _PATIENCE_S:
            self._left.popleft()
        if not self._outbox.is_durable or len(self._left) >= _MOST_WAITING:
            self._deliver(_named(feedback, name))
            return "alone"
        self._left.append(now)
        text = json.dumps({"name": name, "feedback": asdict(feedback)})
        self._outbox.put(Job(FEEDBACK, encode=lambda: text), for_any=True)
        return "passed_on"

    def take(self, job: Job) -> bool:
        """Join a feedback of the spool, or deliver an old one alone; return False for another's."""
        try:
            stored: dict[str, Any] = json.loads(job.payload)
            name, feedback = stored["name"], Feedback(**stored["feedback"])
        except (ValueError, KeyError, TypeError) as error:
            self._incidents.report("spool", error)
            self._outbox.done(job)
            return True
        if (joined := self._join(name, feedback)) is None:
            if time.time() - job.accepted < _PATIENCE_S:
                self._look_at = time.monotonic() + _PAUSE_S
                return False
            self._deliver(_named(feedback, name))
        elif not joined:
            self._incidents.count("feedback: lost")
        self._outbox.done(job)
        return True


def _named(feedback: Feedback, name: str) -> Feedback:
    if _TRACE_ID.fullmatch(name):
        return replace(feedback, trace_id=name)
    return replace(feedback, sample_id=name)
