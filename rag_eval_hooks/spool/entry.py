"""One accepted sample on its way through the spool."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Mapping
from typing import Final

from rag_eval_hooks.sample import Sample

__all__ = ["NOWHERE", "Entry"]

NOWHERE: Final = 0
"""The generation of a sample that is on no disk."""


class Entry:
    """A sample that is built once, whoever asks first, and where it is kept.

    Args:
        build: Makes the sample.
        probability: Inclusion probability.
        reason: The sampler's.
        generation: Of the file that it is in already.
        positions: Where sinks stood when it was written, if it was.
        accepted_at: When it was accepted, in seconds since the epoch; None for now.
        redaction: The mark of what is taken out of the sample.

    Attributes:
        generation: Which of the files that were at the spool's path holds it, or `NOWHERE`.
        written: Set once it is known whether it is on disk.
    """

    __slots__ = (
        "_build",
        "_lock",
        "_sample",
        "accepted_at",
        "generation",
        "positions",
        "probability",
        "reason",
        "redaction",
        "written",
    )

    def __init__(
        self,
        build: Callable[[], Sample],
        *,
        probability: float,
        reason: str,
        generation: int = NOWHERE,
        positions: Mapping[str, int] | None = None,
        accepted_at: float | None = None,
        redaction: str = "",
    ) -> None:
        self._build = build
        self._lock = threading.Lock()
        self._sample: Sample | None = None
        self.probability = probability
        self.reason = reason
        self.generation = generation
        self.accepted_at = time.time() if accepted_at is None else accepted_at
        self.redaction = redaction
        self.positions = positions
        self.written = threading.Event()

    def sample(self) -> Sample:
        """The sample, always the same one.

        Raises:
            Exception: Whatever building it raises.
        """
        with self._lock:
            if self._sample is None:
                self._sample = self._build()
                # It may keep alive all that the framework handed over.
                self._build = _unknown
            return self._sample

    def forget(self) -> None:
        """Lets go of all but the sample's id: what is done must not fill the memory."""
        with self._lock:
            if self._sample is not None:
                self._sample = Sample(question="", sample_id=self._sample.sample_id)


def _unknown() -> Sample:
    """Never called: an entry whose sample was built has it."""
    raise LookupError
