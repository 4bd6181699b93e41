"""Reads the inputs and the state stores of running LlamaIndex workflows."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from llama_index.core.base.llms.types import ChatMessage
from llama_index.core.workflow import Context, Event


@dataclass(slots=True)
class FlowState:
    is_given: bool
    # whether a step returned the stop event
    has_stopped: bool = False


def is_given_input(arguments: Mapping[str, Any]) -> bool:
    kwargs, event = arguments.get("kwargs") or {}, live_fields(arguments.get("start_event"))
    given = {**arguments, **kwargs, **event}
    return any(isinstance(one, str | ChatMessage | list) and one for one in given.values())


def live_fields(event: Any) -> dict[str, Any]:
    return {**vars(event), **dict(event.items())} if isinstance(event, Event) else {}


class _Kept:
    # Keeps the original value where LlamaIndex expects a serialized value.
    def __init__(self, value: Any) -> None:
        self.value = value

    @classmethod
    def serialize(cls, value: Any) -> _Kept:
        return cls(value)


def state_of(arguments: Mapping[str, Any]) -> Mapping[str, Any]:
    # The result is empty if the step has no `Context`, or if the store is in another process.
    context = next((one for one in arguments.values() if isinstance(one, Context)), None)
    store = getattr(context, "store", None)
    if store is None:
        # Old versions have `_globals` instead of a store.
        return dict(getattr(context, "_globals", {}))
    try:
        state = store.to_dict(_Kept).get("state_data")
    except NotImplementedError:
        return {}
    if isinstance(state, _Kept):
        return state.value if type(state.value) is dict else getattr(state.value, "__dict__", {})
    held = state.get("_data", {}) if isinstance(state, Mapping) else {}
    return {name: kept.value for name, kept in held.items() if isinstance(kept, _Kept)}
