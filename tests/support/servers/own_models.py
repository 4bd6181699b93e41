"""A small local model that tells about its process, or harms it when a text says so."""

# ruff: noqa: E402 - the first lines make the other imports quick

from __future__ import annotations

import contextlib
import os

_CAME_WITH = os.sched_getscheduler(0) if hasattr(os, "sched_getscheduler") else 0
"""How this process was scheduled when it began to load the model."""
if _CAME_WITH:
    # A busy machine has no idle time, in which alone it would go on: not even with its imports.
    with contextlib.suppress(OSError):
        os.sched_setscheduler(0, os.SCHED_OTHER, os.sched_param(0))

import ctypes
import logging
import re
import signal
import sys
import time
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

from opentelemetry import trace

from rag_eval_hooks.calls import Caller, Operation
from rag_eval_hooks.judges.local_model import LocalModel, Run


def _raise() -> None:
    raise ValueError("secret text")


def _print() -> None:
    print("secret on stdout", flush=True)  # noqa: T201 - what is tested
    print("secret on stderr", file=sys.stderr, flush=True)  # noqa: T201 - the same
    os.write(1, b"secret on 1")
    os.write(2, b"secret on 2")
    logging.getLogger("some.library").warning("secret in a log")


_DEEDS: dict[str, Callable[[], object]] = {
    "kill": lambda: os.kill(os.getpid(), signal.SIGKILL),
    "crash": lambda: ctypes.string_at(0),
    # Holds the interpreter lock for years: no thread and no signal handler runs meanwhile.
    "hang": lambda: re.match(r"(a+)+$", "a" * 60 + "b"),
    "raise": _raise,
    "exit": lambda: sys.exit(3),
    "print": _print,
    "sleep": lambda: time.sleep(0.1),
    "sleep long": lambda: time.sleep(600),
}


def load() -> Run[str, dict[str, Any]]:
    return _run


def load_badly(deed: str) -> Run[str, dict[str, Any]]:
    _DEEDS[deed]()
    raise FileNotFoundError("secret path")


def _end_once(deed: str) -> None:
    name, _, path = deed.partition(" once ")
    if path and not Path(path).exists():
        # Where the folder is missing, it ends each time.
        with contextlib.suppress(FileNotFoundError):
            Path(path).touch()
        os.kill(os.getpid(), signal.Signals[name])


def _run(texts: Sequence[str]) -> list[dict[str, Any]]:
    for text in texts:
        _DEEDS.get(text, int)()
        _end_once(text)
    there = _about()
    return [{"text": text, **there} for text in texts]


def _about() -> dict[str, Any]:
    folder: str | None = None
    with contextlib.suppress(FileNotFoundError):
        folder = os.getcwd()
    return {
        "pid": os.getpid(),
        "parent": os.getppid(),
        "nice": os.nice(0),
        "scheduler": _CAME_WITH,
        "folder": folder,
        "main": getattr(sys.modules["__main__"], "__file__", None),
        "otel": sorted(name for name in os.environ if name.startswith("OTEL_")),
        "own": sorted(name for name in os.environ if name.startswith("RAG_EVAL_")),
        "tokenizers": os.environ.get("TOKENIZERS_PARALLELISM"),
        "threads": os.environ.get("OMP_NUM_THREADS"),
        "shapes": os.environ.get("ONEDNN_PRIMITIVE_CACHE_CAPACITY"),
        "records": trace.get_tracer("t").start_span("s").is_recording(),
    }


class OwnEmbedder:
    name = "own"

    def __init__(self) -> None:
        self.about: dict[str, Any] = {}
        self._model: LocalModel[str, dict[str, Any]] = LocalModel(
            "own", Caller("own", Operation.EMBEDDINGS, local=True), load
        )

    async def embed(self, texts: Sequence[str]) -> list[list[float]]:
        for result in await self._model.run(texts):
            if isinstance(result, Exception):
                raise result
            self.about = result
        return [[1.0, float(len(text))] for text in texts]

    async def aclose(self) -> None:
        await self._model.aclose()
