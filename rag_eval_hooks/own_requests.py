"""Limits of the library's own HTTP requests: a quiet log, and replies of bounded size."""

from __future__ import annotations

import logging
from collections.abc import Iterator
from contextlib import contextmanager
from contextvars import ContextVar
from typing import Any, Final

__all__ = ["ENCODINGS", "ReplyTooLongError", "check_encoding", "quiet", "replace_body", "taken"]

LONGEST_REPLY: Final = 4_000_000
"""Decoded bytes; a reply without an end would take all memory."""
ENCODINGS: Final = "gzip, deflate"
"""Encodings to ask for: a piece of any other may decode to gigabytes at once."""
_LOGGERS: Final = ("httpx", "httpx2", "openai._base_client")
_is_own: ContextVar[bool] = ContextVar("rag_eval_hooks_own_request", default=False)


class ReplyTooLongError(Exception):
    """The reply is longer than the limit, or encoded so that its length cannot be known."""


@contextmanager
def quiet() -> Iterator[None]:
    """Keep the lines that HTTP clients log at INFO for requests of the block out of the log."""
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
    """Refuse a reply whose pieces may decode to any size.

    Raises:
        ReplyTooLongError: It is encoded twice, or otherwise than asked for.
    """
    encoding = response.headers.get("content-encoding", "identity").strip().lower()
    if encoding not in ("gzip", "deflate", "identity", ""):
        raise ReplyTooLongError("the reply has an encoding that was not asked for")


def taken(body: bytearray, piece: bytes) -> None:
    """Add a piece to a body.

    Raises:
        ReplyTooLongError: The body is too long.
    """
    body += piece
    if len(body) > LONGEST_REPLY:
        raise ReplyTooLongError(f"the reply is longer than {LONGEST_REPLY:,} bytes")


def replace_body(response: Any, body: bytes) -> None:
    """Give a response the body that was read and decoded."""
    coded = ("content-encoding", "content-length", "transfer-encoding")
    headers = [(k, v) for k, v in response.headers.multi_items() if k.lower() not in coded]
    made = type(response)(
        response.status_code,
        headers=headers,
        content=body,
        request=response.request,
        extensions=response.extensions,
    )
    vars(response).update(vars(made))
