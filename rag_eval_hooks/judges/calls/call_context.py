"""Calls models within the limits, and reports each call to the current evaluation."""

from __future__ import annotations

import asyncio
import contextvars
import time
from collections import deque
from collections.abc import AsyncIterator, Callable, Coroutine, Iterator, Sequence
from contextlib import asynccontextmanager, contextmanager
from contextvars import ContextVar
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Any, Final, TypeVar
from weakref import WeakKeyDictionary

from opentelemetry import context

from rag_eval_hooks.calls import Call, Caller, CallOutcome, Operation, Usage, tokens
from rag_eval_hooks.errors import JudgeError, JudgeTimeout
from rag_eval_hooks.incidents import without_exit
from rag_eval_hooks.judges.calls.call_limits import CallLimits, Gate
from rag_eval_hooks.judges.calls.failures import (
    DescribedError,
    RequestRefusedError,
    describe,
    is_time_out,
    outcome_of,
    status_of,
)
from rag_eval_hooks.judges.prices import Prices
from rag_eval_hooks.prompts.prompt import ReplyError

if TYPE_CHECKING:
    from rag_eval_hooks.judges.calls.budget import Budget, Reservation

T = TypeVar("T")

OUT_OF_TIME: Final = "the evaluation exceeded sample_timeout"
_UNRELATED: Final = frozenset({401, 403, 408, 429})  # statuses that do not depend on the content


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


class ModelCalls:
    def __init__(self, caller: Caller, limits: CallLimits) -> None:
        self._caller = caller
        self._limits = limits
        # Waiting calls cannot move between event loops, so each loop has its own gate.
        self._gates: WeakKeyDictionary[asyncio.AbstractEventLoop, Gate] = WeakKeyDictionary()

    async def make(
        self, request: Callable[[Meter], Coroutine[Any, Any, T]], texts: Sequence[str] = ()
    ) -> T:
        gate = self._gates.setdefault(asyncio.get_running_loop(), Gate(self._limits))
        if (observer := call_context().observer) is not None:
            observer.passes(self._caller, gate)
        try:
            async with gate.slot():
                with observed_call(self._caller, texts) as meter:
                    return await _isolated(request(meter))
        except (JudgeError, ReplyError):
            raise
        except Exception as error:  # noqa: BLE001 - the user's client may raise anything
            # A client's exception may quote the request, so we do not chain the exception.
            raise self._translated(error) from None

    def _translated(self, error: Exception) -> JudgeError | ReplyError:
        name, status = self._caller.name, status_of(error)
        if type(error).__name__.endswith("FinishReasonError"):
            return ReplyError("the reply was cut off; be brief")
        if is_time_out(error):
            seconds, tries = self._limits.timeout, self._limits.retries + 1
            return JudgeTimeout(f"{name}: no reply within {seconds:g} s ({tries} attempts)")
        line = f"{name}: {describe(error)}"
        is_lasting = status is not None and (status >= 500 or status in _UNRELATED)
        if is_lasting or isinstance(error, DescribedError):
            return JudgeError(line)
        lacks_mode = isinstance(error, NotImplementedError)
        complaint = "structured output" if lacks_mode else str(error).lower()
        return RequestRefusedError(line, status, complaint)


async def _isolated(call: Coroutine[Any, Any, T]) -> T:
    fresh = contextvars.Context()
    fresh.run(context.attach, context.get_current())
    fresh.run(_context.set, _context.get())
    return await asyncio.create_task(without_exit(call), context=fresh)
