"""What can be sent to a process that never runs the application's main module."""

from __future__ import annotations

import io
import pickle
from collections.abc import Mapping
from dataclasses import replace
from types import FunctionType
from typing import Any

from rag_eval_hooks.sample import Context, Sample

__all__ = ["NotPortable", "packed", "packed_sample"]


class NotPortable(Exception):
    """An object cannot be sent; the text says which, never what it holds."""


class _Pickler(pickle.Pickler):
    """Refuses what is defined in `__main__`: another process has another main module."""

    def reducer_override(self, value: Any) -> Any:
        if isinstance(value, type | FunctionType) and value.__module__ == "__main__":
            raise NotPortable(f"{value.__qualname__} is defined in __main__")
        return NotImplemented


def packed(value: object) -> bytes:
    """The object in the form in which it is sent.

    Raises:
        NotPortable: It, or a part of it, cannot be pickled or is of the main module.
    """
    buffer = io.BytesIO()
    try:
        _Pickler(buffer, pickle.HIGHEST_PROTOCOL).dump(value)
    except NotPortable:
        raise
    except Exception as error:  # noqa: BLE001 - pickling runs code of the object's own
        # The library's words may show the object.
        raise NotPortable(f"{_name(value)} cannot be pickled ({type(error).__name__})") from None
    return buffer.getvalue()


def packed_sample(sample: Sample, chosen: frozenset[str] | None) -> tuple[bytes, int]:
    """What is sent to evaluate a sample, and how many of its metadata were left out.

    Metadata is free: what cannot be sent of it is left out, all else is sent as it is.

    Args:
        sample: The sample.
        chosen: Ids of the metrics to evaluate, or None for all.
    """
    try:
        return packed((sample, chosen)), 0
    except NotPortable:
        slim = replace(
            sample,
            metadata=_portable(sample.metadata),
            contexts=None if sample.contexts is None else tuple(map(_slim, sample.contexts)),
        )
        return packed((slim, chosen)), _entries(sample) - _entries(slim)


def _slim(context: Context) -> Context:
    return replace(context, metadata=_portable(context.metadata))


def _portable(metadata: Mapping[str, Any]) -> dict[str, Any]:
    return {key: value for key, value in metadata.items() if _is_portable(value)}


def _is_portable(value: object) -> bool:
    try:
        packed(value)
    except NotPortable:
        return False
    return True


def _entries(sample: Sample) -> int:
    return len(sample.metadata) + sum(len(context.metadata) for context in sample.contexts or ())


def _name(value: object) -> str:
    return getattr(value, "__qualname__", type(value).__qualname__)
