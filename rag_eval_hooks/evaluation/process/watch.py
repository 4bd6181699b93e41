"""Calls to judge and embedder that are made in the child, watched in the application."""

from __future__ import annotations

import asyncio
import json
import weakref
from collections.abc import Sequence

from rag_eval_hooks.calls import (
    BreakerState,
    Call,
    Caller,
    CallOutcome,
    CallWatch,
    Gated,
    GateState,
    Operation,
)
from rag_eval_hooks.evaluation.process.link import Frame, Kind
from rag_eval_hooks.evaluation.process.telling import Outbox

__all__ = ["FarWatch", "RelayedWatch"]

_LOOK = 1.0
"""Seconds between looks at the gates: a breaker becomes half-open without a call."""


class RelayedWatch:
    """The child's side: tells the application. Belongs to one event loop.

    Args:
        outbox: The way to it.
    """

    def __init__(self, outbox: Outbox) -> None:
        self._outbox = outbox
        self._gates: dict[Caller, weakref.ref[Gated]] = {}
        self._told: dict[Caller, GateState] = {}

    def called(self, call: Call) -> None:
        """Tells of a call."""
        told = [call.caller.name, call.caller.operation, call.outcome, call.start, call.end]
        self._put(Kind.CALL, told)
        self._look()

    def passes(self, caller: Caller, gate: Gated) -> None:
        """Looks at the gate from now on."""
        self._gates[caller] = weakref.ref(gate)

    async def run(self) -> None:
        """Tells whenever a gate has changed."""
        while True:
            await asyncio.sleep(_LOOK)
            self._look()

    def _look(self) -> None:
        for caller, known in self._gates.items():
            gate = known()
            state = None if gate is None else gate.state()
            if state is not None and self._told.get(caller) != state:
                self._told[caller] = state
                levels = [state.limit, state.in_flight, state.waiting, state.breaker]
                self._put(Kind.GATE, [caller.name, caller.operation, *levels])

    def _put(self, kind: Kind, told: Sequence[object]) -> None:
        self._outbox.put(Frame(kind, body=json.dumps(told).encode()))


class FarWatch:
    """The application's side: passes on what a child tells, and stands for its gates.

    Args:
        watch: Who listens, or None for nobody.
    """

    def __init__(self, watch: CallWatch | None) -> None:
        self._watch = watch
        self._gates: dict[Caller, _FarGate] = {}

    def take(self, frame: Frame) -> None:
        """Takes over a frame of the kinds `CALL` and `GATE`."""
        if self._watch is not None:
            name, operation, *told = json.loads(frame.body)
            caller = Caller(name, Operation(operation))
            if frame.kind is Kind.CALL:
                self._watch.called(Call(caller, CallOutcome(told[0]), *told[1:]))
            else:
                limit, in_flight, waiting, breaker = told
                state = GateState(limit, in_flight, waiting, BreakerState(breaker))
                self._gate(caller, self._watch).told = state

    def gone(self) -> None:
        """The child has ended: its gates exist no more."""
        self._gates.clear()

    def _gate(self, caller: Caller, watch: CallWatch) -> _FarGate:
        gate = self._gates.setdefault(caller, _FarGate())
        watch.passes(caller, gate)
        return gate


class _FarGate:
    """A gate in the child, as it was told of last."""

    def __init__(self) -> None:
        self.told = GateState(0, 0, 0, BreakerState.CLOSED)

    def state(self) -> GateState:
        return self.told
