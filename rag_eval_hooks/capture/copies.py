"""Copies of what events show, left to be read off the request's thread."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from rag_eval_hooks.capture.copied import Failed
from rag_eval_hooks.capture.options import CaptureOptions
from rag_eval_hooks.capture.recorder import Recorder
from rag_eval_hooks.capture.records import Run
from rag_eval_hooks.capture.snapshots import LATE_LEVELS, LATE_NODES, Copier, Cut, Form

__all__ = ["Copies"]


class Copies:
    """Copies values for one integration."""

    def __init__(
        self, recorder: Recorder, options: CaptureOptions, form_of: Callable[[type], Form | None]
    ) -> None:
        self._recorder = recorder
        self._options = options
        self._form_of = form_of
        self._forms: dict[type, Form] = {}

    def defer(self, run: Run, event: str, read: Callable[..., None], *shown: Any) -> None:
        """Copy what an event shows, and call `read` with the run and the copies later.

        A failure is counted under the name of the event.
        """
        self.later(run, event, read, *[self.copy(run, value) for value in shown])

    def later(self, run: Run, event: str, read: Callable[..., None], *values: Any) -> None:
        """Leave copies, and values that nobody changes, to be read later; see `defer`."""
        self._recorder.defer(run, event, self._read, run, read, values)

    def copy(self, run: Run, value: Any) -> Any:
        """Return a copy of a value that may change before it is read."""
        if value is None or isinstance(value, Failed):
            return value
        copier = self._copier(run)
        copy = copier.of(value)
        return Cut(value) if copier.is_cut or copier.is_shallow else copy

    def whole(self, run: Run, copy: Any) -> Any:
        """Return a copy of a value that was too large for the request's thread."""
        if not isinstance(copy, Cut):
            return copy
        copier = self._copier(run, nodes=LATE_NODES)
        whole = copier.of(copy.value, LATE_LEVELS)
        if copier.is_cut:
            run.interaction.left_out.add("contexts")
        return whole

    def _read(self, run: Run, read: Callable[..., None], values: Sequence[Any]) -> None:
        read(run, *[self.whole(run, value) for value in values])

    def _copier(self, run: Run, **limits: int) -> Copier:
        interaction = run.interaction
        own = None if interaction.options is None else interaction.options.as_context
        return Copier(
            interaction.snapshots,
            self._form_of,
            self._forms,
            own or self._options.as_context,
            self._recorder.most_waiting,
            **limits,
        )
