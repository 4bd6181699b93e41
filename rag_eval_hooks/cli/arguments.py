"""Types and groups of command-line arguments."""

from __future__ import annotations

import argparse
import math
import os
import sys
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Final, TypeVar

from rag_eval_hooks.delivery.jsonl import open_private
from rag_eval_hooks.errors import ConfigError, RagEvalError
from rag_eval_hooks.results import Cuts, FailCondition, Results, read
from rag_eval_hooks.results.select import time_of

N = TypeVar("N", int, float)
T = TypeVar("T")
UNSCORED: Final = 3
"""Exit code if a metric has no value."""


class UsageError(RagEvalError):
    """An argument or an input file is invalid. The message gives name and reason."""


def _checked(read: Callable[[str], T], expected: str) -> Callable[[str], T]:
    def checked(text: str) -> T:
        try:
            return read(text)
        except ConfigError as error:
            raise argparse.ArgumentTypeError(str(error)) from None
        except ValueError:
            message = f"{text!r} is not accepted. Use {expected}."
            raise argparse.ArgumentTypeError(message) from None

    return checked


def _within(value: N, low: float, high: float = math.inf) -> N:
    if not low <= value <= high:
        raise ValueError
    return value


def _cut(text: str) -> tuple[str, Cuts]:
    metric, values = _pair(text)
    low, high = (_within(float(value), 0, 1) for value in values.split(":"))
    return metric, Cuts(high=_within(high, low), low=low)


def _pair(text: str) -> tuple[str, str]:
    key, sign, value = text.partition("=")
    if not (key.strip() and sign):
        raise ValueError
    return key.strip(), value


def pair(form: str) -> Callable[[str], tuple[str, str]]:
    return _checked(_pair, form)


positive = _checked(lambda text: _within(int(text), 1), "a whole number, 1 or more")
share = _checked(lambda text: _within(float(text), 0, 1), "a number from 0 to 1")
cut = _checked(_cut, "METRIC=LOW:HIGH with numbers from 0 to 1, such as ragas.faithfulness=0.6:0.9")
_moment = _checked(time_of, "24h, 90m, 7d, today, or a date such as 2026-03-01")


def add_repeated(
    parser: argparse.ArgumentParser,
    name: str,
    metavar: str,
    text: str,
    kind: Callable[[str], object] = str,
) -> None:
    parser.add_argument(
        name, action="append", default=[], type=kind, metavar=metavar, help=f"{text} (repeatable)"
    )


def add_gates(parser: argparse.ArgumentParser) -> None:
    by_interval = "exit with 1 if the mean's entire 95 %% interval meets the condition, such as"
    by_point = "exit with 1 if the mean meets the condition, whatever its interval"
    condition = _checked(FailCondition.of, "METRIC<NUMBER, with <, <=, > or >=")
    text = f"{by_interval} 'ragas.faithfulness<0.8'"
    add_repeated(parser, "--fail-on", "CONDITION", text, condition)
    add_repeated(parser, "--fail-on-point", "CONDITION", by_point, condition)


def add_selection(parser: argparse.ArgumentParser) -> None:
    add = parser.add_argument
    files = "results files: JSON lines (plain or gzip) or Parquet, or folders with such files"
    add("results", nargs="+", metavar="RESULTS", help=files)
    since = "only results after TIME: an age (24h, 7d), today, or a date"
    add("--since", type=_moment, metavar="TIME", help=since)
    add("--until", type=_moment, metavar="TIME", help="only results before TIME")
    keys = "KEY is a metadata key, tag, workflow, version, reason or day"
    where, kind = f"only results with this value. {keys}", pair("KEY=VALUE, such as tag=beta")
    add_repeated(parser, "--where", "KEY=VALUE", where, kind)


def rows_of(paths: Sequence[str]) -> Results:
    results = read(*paths)
    if any(row.outcomes for row in results):
        return results
    skipped = ", ".join(f"{count} {reason}" for reason, count in results.skipped.items())
    raise UsageError(
        f"{', '.join(paths)}: contains no result with an outcome (skipped lines: {skipped or 0}). "
        "`rag-eval-hooks evaluate DATA -o RESULTS` writes results of a data set."
    )


def write_text(text: str, path: Path | None) -> None:
    """Write to a file with mode 0600, or to the terminal."""
    if path is None:
        sys.stdout.write(text if text.endswith("\n") else f"{text}\n")
    else:
        descriptor = open_private(str(path), os.O_WRONLY | os.O_CREAT | os.O_TRUNC)
        with open(descriptor, "w", encoding="utf-8", errors="replace") as file:
            file.write(text)
