"""The host's edge: nothing that goes wrong in a callback reaches the application."""

from __future__ import annotations

import functools
from collections.abc import Callable
from typing import Any, TypeVar, cast

__all__ = ["host_edge"]

F = TypeVar("F", bound=Callable[..., None])


def host_edge(method: F) -> F:
    """Wraps a callback of a framework; what it raises is counted and goes no further.

    Args:
        method: A method of an object that keeps its `Incidents` in `_incidents`.
    """

    @functools.wraps(method)
    def guarded(self: Any, *args: Any, **kwargs: Any) -> None:
        try:
            method(self, *args, **kwargs)
        except Exception as error:  # noqa: BLE001 - the host's edge
            self._incidents.report(f"capture {method.__name__}", error)

    return cast("F", guarded)
