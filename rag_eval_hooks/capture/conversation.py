"""Reads a request's session id, and keeps interrupted requests until they resume."""

from __future__ import annotations

import time
from collections.abc import Callable, Hashable, Mapping
from functools import partial
from typing import Any, TypeAlias
from uuid import UUID

from rag_eval_hooks.capture.bounded import oldest
from rag_eval_hooks.capture.records import Interaction, Run

_SESSION_KEYS = ("session_id", "thread_id", "conversation_id")
_THREAD_KEYS = ("thread_id", "checkpoint_ns", "assistant_id")
_TEXT_KEYS = (*_SESSION_KEYS, "user_id", "question_id", "reference")
OWN_KEYS = (*_TEXT_KEYS, "reference_ids")


def text_of(metadata: Mapping[str, Any], *keys: str) -> str | None:
    value = next((metadata[key] for key in keys if metadata.get(key) is not None), None)
    return value if value is None or isinstance(value, str) else str(value)


def session_of(metadata: Mapping[str, Any]) -> str | None:
    return text_of(metadata, *_SESSION_KEYS)


def thread_of(name: str, metadata: Mapping[str, Any]) -> str | None:
    if metadata.get("thread_id") is None:
        return None
    return "/".join([name, *(str(metadata.get(key) or "") for key in _THREAD_KEYS)])


def objects_in(metadata: Mapping[str, Any]) -> dict[str, str]:
    return {
        key: f"metadata[{key!r}] must be a text, int or UUID, not {type(metadata[key]).__name__}"
        for key in _TEXT_KEYS
        if not isinstance(metadata.get(key), str | int | UUID | None)
    }


def own_entries(values: Mapping[str, Any]) -> dict[str, Any]:
    return {key: values[key] for key in OWN_KEYS if values.get(key) is not None}


Fits: TypeAlias = Callable[[Interaction], bool]


class Suspensions:
    def __init__(self, report: Callable[[Interaction], None], most: int) -> None:
        self._report = report
        self._most = most
        # Conversation and request by root id. The caller that removes an entry owns the request.
        self._waiting: dict[Hashable, tuple[str, Interaction]] = {}

    def add(self, interaction: Interaction) -> None:
        root = interaction.root
        conversation = thread_of(root.name, interaction.metadata)
        if conversation is not None:
            interaction.opened = time.time_ns()
            self._waiting[root.id] = conversation, interaction
            if len(self._waiting) > self._most and (first := oldest(self._waiting)) is not None:
                self._give_up(first[1])
        else:
            self._report(interaction)

    def resume(self, run: Run, conversation: str, fits: Fits) -> bool:
        fitting = self._fitting(conversation, fits)
        if len(fitting) != 1 or not self._remove(fitting[0]):
            return False
        earlier, interaction = fitting[0], run.interaction
        run.start, interaction.otel = earlier.root.start, earlier.otel
        interaction.metadata = {**earlier.metadata, **interaction.metadata}
        interaction.pending.appendleft(partial(interaction.absorb, earlier))
        return True

    def renew(self, conversation: str, fits: Fits) -> None:
        for interaction in self._fitting(conversation, fits):
            self._give_up(interaction)

    def sweep(self, oldest_allowed: float) -> None:
        while (first := oldest(self._waiting)) and first[1].opened <= oldest_allowed:
            self._give_up(first[1])

    def close(self) -> None:
        self._most = 0
        self.sweep(float("inf"))

    def waiting(self) -> list[Interaction]:
        return [one for _, one in list(self._waiting.values())]

    def _fitting(self, conversation: str, fits: Fits) -> list[Interaction]:
        waiting = [one for name, one in list(self._waiting.values()) if name == conversation]
        return list(filter(fits, waiting))

    def _give_up(self, interaction: Interaction) -> None:
        if self._remove(interaction):
            self._report(interaction)

    def _remove(self, interaction: Interaction) -> bool:
        return self._waiting.pop(interaction.root.id, None) is not None
