"""Limits and logging of the HTTP requests that this package sends."""

from __future__ import annotations

import logging
from collections.abc import Iterator
from contextlib import contextmanager
from contextvars import ContextVar
from typing import Any, Final

LONGEST_REPLY: Final = 4_000_000
"""Maximum size of a decoded reply, in bytes."""
ENCODINGS: Final = "gzip, deflate"
"""Accepted encodings. With another encoding, a small chunk may decode to gigabytes."""
_LOGGERS: Final = ("httpx", "httpx2", "openai._base_client")
_is_own: ContextVar[bool] = ContextVar("rag_eval_hooks_own_request", default=False)


class ReplyTooLongError(Exception):
    pass


@contextmanager
def quiet() -> Iterator[None]:
    """Suppress the HTTP client's INFO logs in the block."""
    for name in _LOGGERS:
        logging.getLogger(name).addFilter(_is_of_the_application)
    token = _is_own.set(True)
    try:
        yield
    finally:
        _is_own.reset(token)


def _is_of_the_application(record: logging.LogRecord) -> bool:
    return record.levelno > logging.INFO or not _is_own.get()


def check_encoding(response: Any) -> None:
    """Reject a reply whose content encoding allows a decoded size without a limit.

    Raises:
        ReplyTooLongError: The reply has two encodings, or an encoding outside `ENCODINGS`.
    """
    encoding = response.headers.get("content-encoding", "identity").strip().lower()
    if encoding not in ("gzip", "deflate", "identity", ""):
        raise ReplyTooLongError("the reply has an unexpected encoding")


def append(body: bytearray, piece: bytes) -> None:
    """Append a chunk. Raise `ReplyTooLongError` if the body exceeds `LONGEST_REPLY`."""
    body += piece
    if len(body) > LONGEST_REPLY:
        raise ReplyTooLongError(f"the reply is longer than {LONGEST_REPLY:,} bytes")
