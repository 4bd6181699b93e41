"""Handling of events in the event loop, from which no other handler suffers."""

from __future__ import annotations

import sys
from types import FrameType
from typing import Any

__all__ = ["Inline"]

_WITHHOLDING = "on_llm_start"
_COMPREHENSIONS = ("<listcomp>", "<genexpr>")


class Inline:
    """Value of a handler's `run_inline`: true but for the one function that it would mislead.

    Inline handlers spare async runs a worker thread for each event. But `on_llm_start` of
    langchain-core's asynchronous manager (up to 1.7) calls inline handlers *instead of* all others
    for plain models. If this one says that it is not inline, all are called, and each event is then
    handled inline after all. Where another handler is inline anyway, this one must be, too, to be
    called.
    """

    def __get__(self, handler: Any, owner: type | None = None) -> bool:
        """Return whether events are handled inline, as far as the caller is concerned."""
        asking: FrameType | None = sys._getframe(1)
        if asking is not None and asking.f_code.co_name in _COMPREHENSIONS:
            # Before Python 3.12 a comprehension has a frame of its own.
            asking = asking.f_back
        if asking is None or asking.f_code.co_name != _WITHHOLDING:
            return True
        manager = asking.f_locals.get("self")
        others = (one for one in getattr(manager, "handlers", ()) if not _is_ours(one))
        return any(one.run_inline for one in others)


def _is_ours(handler: object) -> bool:
    return any(isinstance(vars(kind).get("run_inline"), Inline) for kind in type(handler).__mro__)
