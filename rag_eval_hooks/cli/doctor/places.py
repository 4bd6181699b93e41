"""Files and folders that settings name: readable, or writable."""

from __future__ import annotations

import tempfile
from collections.abc import Iterator
from pathlib import Path

from rag_eval_hooks.cli.doctor.result import Result, Setup, Status
from rag_eval_hooks.delivery import sink_list
from rag_eval_hooks.errors import ConfigError

__all__ = ["check_files", "check_sinks"]


def check_files(setup: Setup) -> Iterator[Result]:
    """Check the price table; the metrics' check reads question checks."""
    if setup.config.judge_prices is not None:
        yield _prices(setup.config.judge_prices)


def check_sinks(setup: Setup) -> Iterator[Result]:
    """Whether each file can be appended to; nothing is written."""
    try:
        sink_list(None, setup.config)
    except ConfigError as error:
        advice = f"set {error.field}: {error.wants}"
        yield Result(check="sinks", status=Status.FAILED, text=str(error), advice=advice)
        return
    for spec in setup.config.sinks:
        name, _, address = spec.partition(":")
        if name != "jsonl":
            continue
        path = Path(address)
        yield _appendable(path) if path.exists() else _writable(f"sink {spec}", path, path.parent)
    if not setup.config.sinks:
        text = "none in the settings: scores stand on spans, and go where the code sends them"
        yield Result(check="sinks", status=Status.NOTE, text=text)


def _prices(path: str) -> Result:
    from rag_eval_hooks.judges.prices import Prices

    try:
        Prices.read(path)
    except ConfigError as error:
        return Result(
            check="judge_prices", status=Status.FAILED, text=str(error), advice="mend the file"
        )
    return Result(check="judge_prices", status=Status.OK, text=f"{path} can be read")


def _appendable(path: Path) -> Result:
    try:
        with path.open("a", encoding="utf-8"):
            pass
    except OSError as error:
        return _refused(f"sink jsonl:{path}", path, error)
    return Result(check=f"sink jsonl:{path}", status=Status.OK, text="can be written")


def _writable(check: str, path: Path, folder: Path) -> Result:
    try:
        with tempfile.TemporaryFile(dir=folder):
            pass
    except OSError as error:
        return _refused(check, path, error)
    return Result(check=check, status=Status.OK, text=f"{path} can be written")


def _refused(check: str, path: Path, error: OSError) -> Result:
    text = f"{path} cannot be written: {error.strerror or type(error).__name__}"
    advice = "give this user the right to write there, or name another place"
    return Result(check=check, status=Status.FAILED, text=text, advice=advice)
