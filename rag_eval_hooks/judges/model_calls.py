"""Limits the calls to models, and reports each call to the current evaluation."""

from __future__ import annotations

import asyncio
import contextvars
import logging
import time
from collections import deque
from collections.abc import AsyncIterator, Callable, Coroutine, Iterator, Mapping, Sequence
from contextlib import asynccontextmanager, contextmanager
from contextvars import ContextVar
from dataclasses import dataclass, field, fields, replace
from enum import StrEnum
from typing import TYPE_CHECKING, Any, Final, Self, TypeVar

from opentelemetry import context

from rag_eval_hooks.calls import Call, Caller, CallOutcome, Operation, Usage, tokens
from rag_eval_hooks.errors import ConfigError, JudgeUnavailable, check_count
from rag_eval_hooks.incidents import without_exit
from rag_eval_hooks.judges.failures import answers, is_time_out, outcome_of, status_of
from rag_eval_hooks.judges.prices import Prices

if TYPE_CHECKING:
    from rag_eval_hooks.judges.budget import Budget, Reservation

T = TypeVar("T")

_logger = logging.getLogger("rag_eval_hooks")

MAX_FAILURES = 20  # consecutive failures that open the breaker
FIRST_PAUSE = 10.0  # seconds of the first pause; each pause doubles, up to 60 seconds
OUT_OF_TIME: Final = "the evaluation exceeded sample_timeout"
_UNAVAILABLE: Final = "too many judge calls failed in a row; calls resume after a pause"


@dataclass(frozen=True, slots=True, kw_only=True)
class CallLimits:
    """Limits of the calls to one model."""

    timeout: float = 60.0  # seconds per attempt
    retries: int = 0  # maximum number of retries per call
    concurrency: int = 16  # maximum number of simultaneous calls

    def __post_init__(self) -> None:
        if not 0 < self.timeout < float("inf"):
            raise ConfigError("timeout", self.timeout, "seconds, above 0")
        check_count("retries", self.retries, 0)
        check_count("concurrency", self.concurrency)

    @classmethod
    def of(cls, options: Mapping[str, Any]) -> Self:
        return cls(**{name: value for name, value in options.items() if value is not None})

    @classmethod
    def split(cls, options: Mapping[str, Any]) -> tuple[Self, dict[str, Any]]:
        others = dict(options)
        own = {one.name: others.pop(one.name) for one in fields(cls) if one.name in options}
        return cls.of(own), others


class BreakerState(StrEnum):
    CLOSED = "closed"
    OPEN = "open"
    HALF_OPEN = "half_open"  # one probe call may pass


class Breaker:
    def __init__(self, clock: Callable[[], float] = time.monotonic) -> None:
        self._clock = clock
        self._close()

    def _close(self) -> None:
        self._pause, self._failures = FIRST_PAUSE, 0
        self._open_until: float | None = None
        self._probing = False

    @property
    def state(self) -> BreakerState:
        if self._open_until is None:
            return BreakerState.CLOSED
        due = self._probing or self._clock() >= self._open_until
        return BreakerState.HALF_OPEN if due else BreakerState.OPEN

    def probe(self) -> bool:
        is_free = not self._probing and self.state is BreakerState.HALF_OPEN
        self._probing = self._probing or is_free
        return is_free

    def record_call(self, *, answered: bool | None, probe: bool) -> None:
        self._probing = self._probing and not probe
        if answered:
            if self._open_until is not None:
                _logger.warning("A judge call succeeded. Calls resume.")
            self._close()
        elif answered is False:
            self._failures += 1
            if probe:
                self._pause = min(2 * self._pause, 6 * FIRST_PAUSE)
            elif self._open_until is not None or self._failures < MAX_FAILURES:
                return
            else:
                _logger.warning(
                    "Many judge calls failed. New calls fail immediately, until a test call works."
                )
            self._open_until = self._clock() + self._pause


class Gate:
    def __init__(self, limits: CallLimits) -> None:
        self.breaker = Breaker()
        self._slots = asyncio.Semaphore(limits.concurrency)

    @asynccontextmanager
    async def slot(self) -> AsyncIterator[None]:
        if self.breaker.state is BreakerState.OPEN:
            raise JudgeUnavailable(_UNAVAILABLE)
        async with self._slots:
            probe, answered = self.breaker.probe(), None
            if not probe and self.breaker.state is not BreakerState.CLOSED:
                raise JudgeUnavailable(_UNAVAILABLE)
            try:
                yield
                answered = True
            except BaseException as error:
                answered = answers(error)
                raise
            finally:
                self.breaker.record_call(answered=answered, probe=probe)


@dataclass(slots=True)
class Tally:
    usage: Usage = field(default_factory=Usage)


@dataclass(frozen=True, slots=True)
class CallContext:
    observer: Any = None  # The observer's methods `called` and `passes` never raise or block.
    log: deque[Call] | None = None
    budget: Budget | None = None
    hold: Reservation | None = None  # unused part of the current sample's reservation
    deadline: float | None = None
    tally: Tally | None = None


_context: ContextVar[CallContext] = ContextVar(
    "rag_eval_hooks_calls",
    default=CallContext(),  # noqa: B039 - frozen
)


def call_context() -> CallContext:
    return _context.get()


@contextmanager
def in_call_context(**changes: Any) -> Iterator[CallContext]:
    changed = replace(_context.get(), **changes)
    token = _context.set(changed)
    try:
        yield changed
    finally:
        _context.reset(token)


def is_in_time() -> bool:
    deadline = _context.get().deadline
    return deadline is None or asyncio.get_running_loop().time() < deadline


class Meter:
    def __init__(self, caller: Caller, texts: Sequence[str] = ()) -> None:
        self.record = Call(caller, start=time.time_ns())
        self._expected = float(sum(map(tokens, texts)))
        self._reserved: Reservation | None = None
        # Our exception inside a client's hook, because the client would wrap the exception.
        self.stopped: Exception | None = None

    async def send(self) -> None:
        self._reserved = None
        embedding = self.record.caller.operation is Operation.EMBEDDINGS
        if (budget := call_context().budget) is not None:
            self._reserved = await budget.reserve(self._expected, embedding=embedding)
        _add(Usage(calls=0 if embedding else 1))

    @asynccontextmanager
    async def sending(self, timeout: float | None = None) -> AsyncIterator[None]:
        await self.send()
        try:
            async with asyncio.timeout(timeout):
                yield
        except Exception as error:
            if not is_time_out(error):  # the provider may charge for a call that timed out
                self.fail()
            raise

    def fail(self) -> None:
        if self._reserved is not None:
            self._reserved.fail()
            self._reserved = None

    def replied(
        self,
        input_tokens: object,
        output_tokens: object = 0,
        *,
        model: object = None,
        id: object = None,
        prices: Prices | None = None,
    ) -> None:
        call = self.record
        used = Usage(input_tokens=_count(input_tokens), output_tokens=_count(output_tokens))
        if prices is not None and used.input_tokens:
            used = prices.priced(used, call.caller.name)
        _add(used)
        call.input_tokens += used.input_tokens
        call.output_tokens += used.output_tokens
        call.response_model, call.response_id = (
            given if isinstance(given, str) else None for given in (model, id)
        )
        if self._reserved is not None:
            self._reserved.settle(used.input_tokens, used.output_tokens)
            self._reserved = None


def _add(usage: Usage) -> None:
    if (tally := call_context().tally) is not None:
        tally.usage += usage


def _count(tokens: object) -> float:
    is_count = isinstance(tokens, int) and not isinstance(tokens, bool)
    return float(max(tokens, 0)) if is_count else 0.0  # type: ignore[call-overload]


@contextmanager
def observed_call(
    caller: Caller, texts: Sequence[str] = (), *, is_request: bool = True
) -> Iterator[Meter]:
    meter, began = Meter(caller, texts), time.monotonic_ns()
    call, outcome = meter.record, None
    try:
        yield meter
        outcome = CallOutcome.OK
    except BaseException as error:
        outcome = outcome_of(error)
        if outcome is not CallOutcome.OK:
            call.error = str(status_of(error) or type(error).__name__)
        raise
    finally:
        # The call's duration uses a monotonic clock, because the wall clock may change.
        call.end = call.start + time.monotonic_ns() - began
        current = _context.get()
        if outcome is not None:
            call.outcome = outcome
            if current.observer is not None and not caller.local:
                current.observer.called(call)
            if current.log is not None and is_request:
                current.log.append(call)


async def isolated(call: Coroutine[Any, Any, T]) -> T:
    # The call's task has its own context, which holds only OpenTelemetry's context and ours.
    fresh = contextvars.Context()
    fresh.run(context.attach, context.get_current())
    fresh.run(_context.set, _context.get())
    return await asyncio.create_task(without_exit(call), context=fresh)
