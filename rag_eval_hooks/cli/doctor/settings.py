"""Every setting with its value and where that is from; secrets are masked."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

from pydantic import SecretStr

from rag_eval_hooks.config.settings import RagEvalConfig
from rag_eval_hooks.errors import masked

__all__ = ["described"]

_MASK = "**********"


def described(config: RagEvalConfig, origins: Mapping[str, str]) -> Iterator[dict[str, Any]]:
    """A row for each setting: `name`, `value`, `source`."""
    for name in RagEvalConfig.model_fields:
        value = _plain(getattr(config, name))
        yield {"name": name, "value": value, "source": origins.get(name, "default")}


def _plain(value: Any) -> Any:
    if isinstance(value, SecretStr):
        return _MASK
    if isinstance(value, str):
        # The address of a sink may have a key in it: it is refused, and shown here before that.
        return masked(value)
    if isinstance(value, Mapping):
        return {key: _plain(item) for key, item in value.items()}
    return [_plain(item) for item in value] if isinstance(value, tuple | list) else value
