"""Types and groups of arguments; each error says what is wrong and what is accepted."""

from __future__ import annotations

import argparse
import sys
from collections.abc import Callable, Iterable
from datetime import datetime
from pathlib import Path

from rag_eval_hooks.cli import UsageError
from rag_eval_hooks.results import Cuts, Results, read
from rag_eval_hooks.results.select import time_of

__all__ = ["add_selection", "at_least", "cut", "results_of", "share", "write_text"]


def at_least(least: int) -> Callable[[str], int]:
    """Return the type of whole numbers from `least` on."""

    def number(text: str) -> int:
        if not text.isdecimal() or int(text) < least:
            raise argparse.ArgumentTypeError(
                f"{text!r} is not accepted. Use a whole number, {least} or more."
            )
        return int(text)

    return number


def share(text: str) -> float:
    """Return a number from 0 to 1."""
    try:
        value = float(text)
    except ValueError:
        value = -1.0
    if not 0.0 <= value <= 1.0:
        raise argparse.ArgumentTypeError(f"{text!r} is not accepted. Use a number from 0 to 1.")
    return value


def cut(text: str) -> tuple[str, Cuts]:
    """Return metric and cuts of `METRIC=LOW:HIGH`."""
    metric, _, values = text.partition("=")
    try:
        low, high = map(share, values.split(":"))
        if not metric or low > high:
            raise ValueError
    except (ValueError, argparse.ArgumentTypeError):
        raise argparse.ArgumentTypeError(
            f"{text!r} is not accepted. Use METRIC=LOW:HIGH with numbers from 0 to 1, such as "
            "ragas.faithfulness=0.6:0.9."
        ) from None
    return metric, Cuts(high=high, low=low)


def add_selection(parser: argparse.ArgumentParser) -> None:
    """Add the arguments that say which results are read."""
    parser.add_argument(
        "results",
        nargs="+",
        metavar="RESULTS",
        help="results: JSON lines, plain or gzip, Parquet, or folders of them",
    )
    parser.add_argument(
        "--since", type=_moment, metavar="TIME", help="24h, 7d, today, or a date: later ones only"
    )
    parser.add_argument("--until", type=_moment, metavar="TIME", help="earlier ones only")
    parser.add_argument(
        "--where",
        action="append",
        default=[],
        type=_condition,
        metavar="KEY=VALUE",
        help="key of the metadata, tag, workflow, version, reason, day (repeatable: all are met)",
    )


def _moment(text: str) -> datetime:
    try:
        return time_of(text)
    except ValueError:
        raise argparse.ArgumentTypeError(
            f"{text!r} is not accepted. Use 24h, 90m, 7d, today, or a date such as 2026-03-01."
        ) from None


def _condition(text: str) -> tuple[str, str]:
    key, sign, value = text.partition("=")
    if not (key and sign):
        raise argparse.ArgumentTypeError(
            f"{text!r} is not accepted. Use KEY=VALUE, such as tag=beta."
        )
    return key, value


def results_of(paths: Iterable[str]) -> Results:
    """Return the results at some paths.

    Raises:
        UsageError: Nothing is at a path.
    """
    try:
        return read(list(paths))
    except FileNotFoundError as error:
        raise UsageError(str(error)) from None


def write_text(text: str, path: Path | None) -> None:
    """Write to a file, or to the terminal."""
    if path is None:
        sys.stdout.write(text if text.endswith("\n") else f"{text}\n")
    else:
        path.write_text(text, encoding="utf-8", errors="replace")
