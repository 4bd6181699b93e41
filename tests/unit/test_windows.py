"""Systems without POSIX, simulated, and what POSIX asks for: modes and signals."""

from __future__ import annotations

import functools
import json
import signal
from pathlib import Path
from typing import Any

import pytest

from rag_eval_hooks.incidents import Incidents
from tests.support.scripts import run_script

# What Python itself and other packages take from the system is loaded first: on Windows they bring
# other files for it.
PRELUDE = """
import asyncio, concurrent.futures, http.server, logging.handlers, multiprocessing.connection
import os, pathlib, platform, signal, socket, sqlite3, ssl, subprocess, sys, sysconfig, tempfile
import uuid, zoneinfo
import opentelemetry.sdk.trace, pydantic

for name in ("fcntl", "grp", "pty", "pwd", "resource", "termios", "tty"):
    sys.modules[name] = None
for name in ("fork", "register_at_fork", "getuid", "geteuid", "fchmod", "chown", "killpg", "nice",
             "sched_setscheduler", "sched_getaffinity", "setsid", "WNOHANG"):
    if hasattr(os, name):
        delattr(os, name)
for name in ("SIGKILL", "SIGHUP", "SIGUSR1", "SIGALRM", "SIGCHLD", "pthread_sigmask"):
    if hasattr(signal, name):
        delattr(signal, name)
"""


def test_everything_works_without_posix(tmp_path: Path) -> None:
    printed = run_script(
        tmp_path,
        """
        from rag_eval_hooks import RagEval
        from rag_eval_hooks.cli.main import main
        from rag_eval_hooks.instrumentor import finish_at_sigterm

        asked = {"question": "How long?", "contexts": ["The bridge is 2 km long."],
                 "answer": "The bridge is 5 km long."}
        settings = {"embedder": "none", "budget": {"calls_per_day": 5, "path": "budget.db"}}
        with RagEval(sinks=["jsonl:scores.jsonl"], spool="spool", **settings) as evals:
            assert evals.submit(asked)
            assert evals.flush(300)
            assert evals.stats().scored == 1
            assert evals.spooled() == {"pending": 0, "undelivered": 0}
            assert not evals.incidents.counts()
            assert evals.evaluate(asked)["ragas.faithfulness"].value == 0.0
            assert finish_at_sigterm(evals)
        assert main(["doctor", "--set", "embedder=none"]) == 0
        """,
        prelude=PRELUDE,
    )
    assert "ok       judge: " in printed
    (line,) = (tmp_path / "scores.jsonl").read_text().splitlines()
    assert json.loads(line)["sample"]["question"] == "How long?"


# Exceptions of signal handlers reach the application.


class _TimeLimitError(Exception):
    pass


@pytest.mark.skipif(not hasattr(signal, "SIGALRM"), reason="no such signal on this platform")
@pytest.mark.parametrize("wrap", [lambda handle: handle, functools.partial])
def test_exception_of_a_signal_handler_is_raised_again(wrap: Any) -> None:

    def handle(_number: int, _frame: object) -> None:
        raise _TimeLimitError

    incidents, before = Incidents(), signal.signal(signal.SIGALRM, wrap(handle))
    try:
        signal.raise_signal(signal.SIGALRM)
    except Exception as error:  # noqa: BLE001 - as at the host's edge
        with pytest.raises(_TimeLimitError):
            incidents.report("offer", error)
    finally:
        signal.signal(signal.SIGALRM, before)
    assert incidents.counts() == {}
