"""Daemon executors end clearly, and exceptions of signal handlers reach the application."""

from __future__ import annotations

import functools
import signal

import pytest

from rag_eval_hooks.incidents import Incidents


class _TimeLimitError(Exception):
    pass


class _Handler:
    def handle(self, _number: int, _frame: object) -> None:
        raise _TimeLimitError

    __call__ = handle


def _at_the_edge(incidents: Incidents) -> None:
    try:
        signal.raise_signal(signal.SIGALRM)
    except Exception as error:  # noqa: BLE001 - as at the host's edge
        incidents.report("offer", error)


@pytest.mark.skipif(not hasattr(signal, "SIGALRM"), reason="no such signal on this platform")
def test_exception_of_a_signal_handler_is_raised_again() -> None:
    """The host's edge keeps what an application raises into whatever runs."""
    for handler in (_Handler().handle, _Handler(), functools.partial(_Handler.handle, _Handler())):
        incidents = Incidents()
        before = signal.signal(signal.SIGALRM, handler)
        try:
            with pytest.raises(_TimeLimitError):
                _at_the_edge(incidents)
        finally:
            signal.signal(signal.SIGALRM, before)
        assert incidents.counts() == {}
