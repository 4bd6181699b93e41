"""Types of command-line arguments."""

from __future__ import annotations

import argparse
import math
import re
from collections.abc import Callable, Mapping
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any, Final, TypeVar

from rag_eval_hooks.datasets.data_rows import COLUMNS
from rag_eval_hooks.errors import ConfigError, RagEvalError
from rag_eval_hooks.providers import JUDGES
from rag_eval_hooks.results.gates import FailCondition

N = TypeVar("N", int, float)
_SPAN: Final = re.compile(r"(\d+(?:\.\d+)?)\s*([smhdw])")
_UNITS: Final = {"s": "seconds", "m": "minutes", "h": "hours", "d": "days", "w": "weeks"}
UNSCORED: Final = 3  # exit code if a metric has no score


class UsageError(RagEvalError):
    """An argument or an input file is invalid. The message names the argument or file."""


def _within(value: N, low: float, high: float = math.inf) -> N:
    if not low <= value <= high:
        raise ValueError
    return value


def _pair(text: str) -> tuple[str, str]:
    key, sign, value = text.partition("=")
    if not (key.strip() and sign):
        raise ValueError
    return key.strip(), value


def time_of(text: str, now: datetime | None = None) -> datetime:
    now = now or datetime.now(UTC)
    if text == "today":
        return now.replace(hour=0, minute=0, second=0, microsecond=0)
    if match := _SPAN.fullmatch(text.strip()):
        return now - timedelta(**{_UNITS[match[2]]: float(match[1])})
    named = datetime.fromisoformat(text)
    return named.replace(tzinfo=named.tzinfo or UTC)


_TYPES: Final[Mapping[str, tuple[Callable[[str], object], str]]] = {
    "condition": (FailCondition.of, "a condition such as 'ragas.faithfulness<0.8'"),
    "moment": (time_of, "24h, 90m, 7d, today, or a date such as 2026-03-01"),
    "pair": (_pair, ""),
    "path": (Path, "a path"),
    "positive": (lambda text: _within(int(text), 1), "a whole number, 1 or more"),
    "share": (lambda text: _within(float(text), 0, 1), "a number from 0 to 1"),
}


def add_arguments(parser: argparse.ArgumentParser, arguments: Mapping[str, Any]) -> None:
    texts = {"<judges>": JUDGES.wanted, "<fields>": ", ".join(COLUMNS)}
    for names, given in arguments.items():
        options = {"help": "", **given}
        for name, text in texts.items():
            options["help"] = options["help"].replace(name, text)
        if "type" in given:
            read, expected = _TYPES[given["type"]]
            options["type"] = _reader(read, expected or given["metavar"])
        if given.get("action") == "append":
            options["default"] = []
        parser.add_argument(*names.split(), **options)


def _reader(read: Callable[[str], object], expected: str) -> Callable[[str], object]:
    def checked(text: str) -> object:
        try:
            return read(text)
        except ConfigError as error:
            raise argparse.ArgumentTypeError(str(error)) from None
        except (OverflowError, ValueError):
            message = f"{text!r} is not valid. Use {expected}."
            raise argparse.ArgumentTypeError(message) from None

    return checked
