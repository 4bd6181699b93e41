"""Contract between an outbox and its sink: items, failures, the destination, the store."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Protocol

from rag_eval_hooks.feedback import Feedback
from rag_eval_hooks.result import Evaluation

__all__ = [
    "Destination",
    "Limits",
    "Queued",
    "Rejected",
    "RetryLater",
    "SendError",
    "SpanUnknown",
    "Store",
]


class SendError(Exception):
    """Failure of a delivery that a platform sink understands.

    Args:
        reason: A few words for counts and logs, such as `HTTP 503`; holds no content.
        is_for_all: Whether the failure is certain to concern every result of the request.
    """

    def __init__(self, reason: str, *, is_for_all: bool = True) -> None:
        super().__init__(reason)
        self.reason = reason
        self.is_for_all = is_for_all


class RetryLater(SendError):
    """The platform could not accept the results now; it may ask for a pause of `wait` seconds."""

    def __init__(self, reason: str, wait: float | None = None) -> None:
        super().__init__(reason)
        self.wait = wait


class SpanUnknown(SendError):
    """The platform does not know the span yet: spans are exported in batches, often later."""

    def __init__(self, answer: str = "") -> None:
        super().__init__("no such span", is_for_all=False)
        self.answer = answer


class Rejected(SendError):
    """The platform will never accept the results, or at least one of them."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Limits:
    """Limits of one outbox.

    Attributes:
        timeout: Seconds for one call of a sink, or one request to a platform.
        retry_for: Seconds for which a failed result is tried again at least.
        keep_for: Seconds after its acceptance for which a result in the spool is tried again.
        queue_chars: Characters of results that may wait in memory.
    """

    timeout: float = 3.0
    retry_for: float = 60.0
    keep_for: float = 86_400.0
    queue_chars: int = 10_000_000


@dataclass(order=True, slots=True, kw_only=True)
class Queued:
    """One result, or one feedback, on its way to one sink.

    Attributes:
        due: Time of the next try, in seconds of the monotonic clock.
        number: Position in the order of arrival.
        payload: The result or feedback.
        chars: Characters that it keeps in memory.
        queued_at: Time of arrival, in seconds of the monotonic clock.
        retry_until: End of the tries from memory, likewise; 0 for none.
        give_up_at: End of all tries, likewise.
        entry: Row of the result in the spool, or None.
        since: Position of a resumable sink before the first delivery, or None.
        is_repeated: Whether the sink may have the result already.
        tries: Failed tries.
        looks: Tries that ended with an unknown span.
        is_alone: Whether it must not share a request: one with others was rejected.
        is_last: Whether the next try is the last one.
        reason: Cause of the last failure, in a few words.
    """

    due: float
    number: int
    payload: Evaluation | Feedback = field(compare=False)
    chars: int = field(compare=False)
    queued_at: float = field(compare=False)
    retry_until: float = field(compare=False)
    give_up_at: float = field(compare=False)
    entry: object | None = field(compare=False, default=None)
    since: int | None = field(compare=False, default=None)
    is_repeated: bool = field(compare=False, default=False)
    tries: int = field(compare=False, default=0)
    looks: int = field(compare=False, default=0)
    is_alone: bool = field(compare=False, default=False)
    is_last: bool = field(compare=False, default=False)
    reason: str = field(compare=False, default="")


class Destination:
    """Base of what an outbox delivers to: a user's sink, or a platform.

    Attributes:
        name: Name in counts and logs.
        key: Name in the spool; stable over processes.
        workers: Calls that may be in flight at once.
        batch_size: Results that one call may take.
        is_watched: Whether a call has no time limit of its own and may hang.
        retries: Whether failures are tried again from memory alone, without a spool.
        counts: Results `taken`, `sent`, `lost` and `spooled`; written by the outbox.
    """

    workers = 1
    batch_size = 1
    is_watched = False
    retries = True

    def __init__(self, name: str, key: str) -> None:
        self.name = name
        self.key = key
        self.counts: Counter[str] = Counter()

    def wants(self, evaluation: Evaluation) -> bool:
        """Return whether an evaluation is to be delivered here."""
        return True

    def open(self, timeout: float) -> None:
        """Prepare for sending, with a limit in seconds for a request; called before the first."""

    def send(self, items: Sequence[Queued], *, last: bool) -> Mapping[int, BaseException]:
        """Deliver a batch; delivering it again changes nothing.

        Args:
            items: Results in the order of their arrival.
            last: Whether they are not tried again.

        Returns:
            Failure by index in `items`; all others were delivered.

        Raises:
            BaseException: The failure of all.
        """
        raise NotImplementedError

    def close(self) -> None:
        """Flush and release. Called once, after the last call."""


class Store(Protocol):
    """Rows on disk of results that sinks lack. No method waits."""

    def delivered(self, entry: object, sink: str) -> None:
        """Note that a sink has a result, or will never get it."""
        ...

    def leave(self, entry: object, sink: str) -> bool:
        """Note that a result is no longer in memory; hand it over again when there is capacity.

        Returns:
            Whether it is on disk.
        """
        ...
