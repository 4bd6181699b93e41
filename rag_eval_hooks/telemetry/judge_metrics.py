"""OpenTelemetry metrics of judge and embedder."""

from __future__ import annotations

import weakref
from collections.abc import Callable, Iterable, Iterator
from typing import Final

from opentelemetry.context import Context
from opentelemetry.metrics import CallbackOptions, Meter, Observation

from rag_eval_hooks import semconv
from rag_eval_hooks.calls import BreakerState, Call, Caller, Gated, GateState
from rag_eval_hooks.incidents import Incidents
from rag_eval_hooks.telemetry.limits import ValueLimit
from rag_eval_hooks.usage import Usage

__all__ = ["JudgeMetrics"]

_SECONDS: Final = [0.01, 0.02, 0.04, 0.08, 0.16, 0.32, 0.64, 1.28, 2.56, 5.12, 10.24, 20.48, 40.96]
"""Bounds as the GenAI conventions advise for the duration of an operation."""
_LEVELS: Final[tuple[tuple[str, str, Callable[[GateState], int]], ...]] = (
    (
        semconv.METRIC_JUDGE_LIMIT,
        "Calls that may be in flight: fewer while many get a 429 or a time-out.",
        lambda state: state.limit,
    ),
    (semconv.METRIC_JUDGE_USAGE, "Calls in flight.", lambda state: state.in_flight),
    (semconv.METRIC_JUDGE_WAITING, "Calls that wait for room.", lambda state: state.waiting),
)


class JudgeMetrics:
    """Observer of calls that records them as metrics. Raises nothing.

    Args:
        meter: Makes the instruments.
        judge: The judge's name, which stands for all that an evaluation took.
        limit: Bounds the names of judges and models.
        incidents: Counts exceptions of the user's provider.
    """

    def __init__(
        self, meter: Meter, *, judge: str, limit: ValueLimit, incidents: Incidents
    ) -> None:
        self._judge = {semconv.EVAL_JUDGE: judge}
        self._limit = limit
        self._incidents = incidents
        # Replaced as a whole, so that it can be read in any thread without a lock.
        self._gates: tuple[tuple[Caller, weakref.ref[Gated]], ...] = ()
        self._calls = meter.create_counter(
            semconv.METRIC_JUDGE_CALLS, "{call}", "Requests to judge and embedder, by outcome."
        )
        self._duration = meter.create_histogram(
            semconv.METRIC_JUDGE_DURATION,
            "s",
            "Time of one request, without waiting for room; each retry is one.",
            explicit_bucket_boundaries_advisory=_SECONDS,
        )
        self._tokens = meter.create_counter(
            semconv.METRIC_JUDGE_TOKENS, "{token}", "Tokens that these calls took."
        )
        self._cost = meter.create_counter(
            semconv.METRIC_JUDGE_COST, "1", "Their cost in the currency of the price table."
        )
        for name, words, of in _LEVELS:
            meter.create_observable_up_down_counter(name, [self._level(of)], "{call}", words)
        meter.create_observable_up_down_counter(
            semconv.METRIC_JUDGE_BREAKERS,
            [self._breakers],
            "{breaker}",
            "Circuit breakers in each state.",
        )

    def forked(self) -> None:
        """Forget the gates of the parent process in a forked child."""
        self._gates = ()

    def called(self, call: Call) -> None:
        """Record a call."""
        attributes = {**self._about(call.caller), semconv.EVAL_JUDGE_OUTCOME: call.outcome.value}
        try:
            # Several samples may share it: no RAG span is its own.
            self._calls.add(1, attributes, Context())
            self._duration.record(call.seconds, attributes, Context())
        except Exception as error:  # noqa: BLE001 - the sink's edge: the user's provider
            self._incidents.report("telemetry metrics", error)

    def passes(self, caller: Caller, gate: Gated) -> None:
        """Report the gate's state from now on, as long as it exists."""
        if not any(known() is gate for _, known in self._gates):
            alive = tuple(entry for entry in self._gates if entry[1]() is not None)
            self._gates = (*alive, (caller, weakref.ref(gate)))

    def used(self, usage: Usage, context: Context) -> None:
        """Record tokens and cost of an evaluation.

        Args:
            usage: Tokens and cost.
            context: Context with the RAG span, for exemplars.
        """
        for kind, count in (("input", usage.input_tokens), ("output", usage.output_tokens)):
            if count:
                attributes = {semconv.GEN_AI_TOKEN_TYPE: kind, **self._judge}
                self._tokens.add(count, attributes, context)
        if usage.cost:
            self._cost.add(usage.cost, self._judge, context)

    def _about(self, caller: Caller) -> dict[str, str]:
        return {
            semconv.EVAL_JUDGE: self._limit.of("judge", caller.name),
            semconv.GEN_AI_OPERATION_NAME: caller.operation.value,
        }

    def _states(self) -> Iterator[tuple[dict[str, str], GateState]]:
        for caller, known in self._gates:
            if (gate := known()) is not None:
                yield self._about(caller), gate.state()

    def _level(
        self, of: Callable[[GateState], int]
    ) -> Callable[[CallbackOptions], Iterable[Observation]]:
        def read(_: CallbackOptions) -> Iterable[Observation]:
            observations: dict[tuple[str, ...], Observation] = {}
            for about, state in self._states():
                _add(observations, of(state), about)
            return observations.values()

        return read

    def _breakers(self, _: CallbackOptions) -> Iterable[Observation]:
        # Every state, also with 0, so that one that was left is seen to be left.
        observations: dict[tuple[str, ...], Observation] = {}
        for about, state in self._states():
            for one in BreakerState:
                _add(
                    observations,
                    int(state.breaker is one),
                    {**about, semconv.EVAL_BREAKER: one.value},
                )
        return observations.values()


def _add(
    observations: dict[tuple[str, ...], Observation], count: int, about: dict[str, str]
) -> None:
    """Add up the states of several event loops for one caller."""
    key = tuple(about.values())
    before = observations[key].value if key in observations else 0
    observations[key] = Observation(before + count, about)
