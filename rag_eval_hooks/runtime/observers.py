"""Observers of every request in one fixed order, and the one way to end a request."""

from __future__ import annotations

import threading
from collections.abc import Callable, Sequence

from rag_eval_hooks.incidents import Incidents
from rag_eval_hooks.request import Ending, Observer, Request
from rag_eval_hooks.result import Evaluation

__all__ = ["Observers"]


class Observers:
    """Calls all observers of a request, in order. Thread-safe.

    An observer that raises is counted; the next one is called all the same.
    """

    def __init__(self, incidents: Incidents) -> None:
        self._incidents = incidents
        self._settling = threading.Lock()
        self.follow(())

    def follow(self, observers: Sequence[Observer]) -> None:
        """Take the observers, in order; a moment that one does not override is not called."""
        self._moments: dict[str, list[Callable[..., None]]] = {
            name: [
                getattr(one, name)
                for one in observers
                if getattr(type(one), name) is not getattr(Observer, name)
            ]
            for name in ("accepted", "begun", "evaluated", "settled")
        }

    def accepted(self, request: Request) -> None:
        request.accepted = True
        self._call("accepted", request)

    def begun(self, request: Request) -> None:
        self._call("begun", request)

    def evaluated(self, request: Request, evaluation: Evaluation) -> None:
        self._call("evaluated", request, evaluation)

    def settle(self, request: Request, ending: Ending) -> None:
        """End a request, once: every later call for it is ignored."""
        with self._settling:
            if request.ending is not None:
                return
            request.ending = ending
        try:
            self._call("settled", request, ending)
        except BaseException:
            # A signal handler of the application raised; observers take an end twice.
            self._call("settled", request, ending)
            raise

    def _call(self, moment: str, *arguments: object) -> None:
        for call in self._moments[moment]:
            try:
                call(*arguments)
            except Exception as error:  # noqa: BLE001 - a later observer must see the request
                self._incidents.report("observer", error)
