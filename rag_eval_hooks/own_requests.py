"""Keeps this package's HTTP requests out of the application's traces and logs.

The module also limits the size of the replies to these requests.
"""

from __future__ import annotations

import logging
from collections.abc import Iterator
from contextlib import AbstractContextManager, contextmanager
from contextvars import ContextVar
from typing import Any, Final

from opentelemetry import context

_OLD_KEY: Final = "suppress_instrumentation"  # older instrumentations read this key
# All instrumentations share these private names. If opentelemetry-api renames the keys, judge calls
# appear in traces, but the import still works.
_INSTRUMENTATION: Final[str] = getattr(context, "_SUPPRESS_INSTRUMENTATION_KEY", _OLD_KEY)
_HTTP: Final[str] = getattr(context, "_SUPPRESS_HTTP_INSTRUMENTATION_KEY", _OLD_KEY)
_SUPPRESSING: Final = context.Context(dict.fromkeys((_INSTRUMENTATION, _HTTP, _OLD_KEY), True))
_PAUSED: Final = context.create_key("rag_eval_paused")
_OWNER: Final = context.create_key("rag_eval_owner")
LONGEST_REPLY: Final = 4_000_000  # bytes, decoded
ENCODINGS: Final = "gzip, deflate"  # any other encoding may decode a small chunk to gigabytes
_LOGGERS: Final = ("httpx", "httpx2", "openai._base_client")
_is_own: ContextVar[bool] = ContextVar("rag_eval_hooks_own_request", default=False)


@contextmanager
def _attached(changed: context.Context) -> Iterator[None]:
    token = context.attach(changed)
    try:
        yield
    finally:
        context.detach(token)


def suppressed(owner: object = None) -> AbstractContextManager[None]:
    """Turn off all OpenTelemetry instrumentation inside a `with` block.

    Use this function only in background tasks. The block also hides the current OpenTelemetry
    context.
    """
    return _attached(context.set_value(_OWNER, owner, _SUPPRESSING))


def is_work_of(owner: object) -> bool:
    return context.get_value(_OWNER) is owner


def paused() -> AbstractContextManager[None]:
    return _attached(context.set_value(_PAUSED, True))


def is_suppressed() -> bool:
    current = context.get_current()
    return bool(current.get(_INSTRUMENTATION) or current.get(_PAUSED))


class ReplyTooLongError(Exception):
    pass


@contextmanager
def quiet() -> Iterator[None]:
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
    encoding = response.headers.get("content-encoding", "identity").strip().lower()
    if encoding not in ("gzip", "deflate", "identity", ""):
        raise ReplyTooLongError("the reply has an unexpected encoding")


def append(body: bytearray, piece: bytes) -> None:
    body += piece
    if len(body) > LONGEST_REPLY:
        raise ReplyTooLongError(f"the reply is longer than {LONGEST_REPLY:,} bytes")
