"""Types of arguments; each error says what it got and what is wanted."""

from __future__ import annotations

import argparse
from collections.abc import Callable
from urllib.parse import urlsplit

__all__ = ["at_least", "share", "url"]


def at_least(least: int) -> Callable[[str], int]:
    """Return the type of whole numbers from `least` on."""

    def number(text: str) -> int:
        try:
            value = int(text)
        except ValueError:
            value = least - 1
        if value < least:
            raise argparse.ArgumentTypeError(f"got {text!r}; wants a whole number, {least} or more")
        return value

    return number


def share(text: str) -> float:
    """Return a number from 0 to 1."""
    try:
        value = float(text)
    except ValueError:
        value = -1.0
    if not 0.0 <= value <= 1.0:
        raise argparse.ArgumentTypeError(f"got {text!r}; wants a number from 0 to 1")
    return value


def url(text: str) -> str:
    """Return a URL of HTTP."""
    if not text.startswith(("http://", "https://")) or not urlsplit(text).netloc:
        raise argparse.ArgumentTypeError(f"got {text!r}; wants a URL such as http://localhost:4318")
    return text
