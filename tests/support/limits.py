"""Smaller limits than an application's, for the objects that a test makes."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any
from unittest import mock

from rag_eval_hooks.config import limits


@contextmanager
def small_limits(settings: dict[str, Any]) -> Iterator[None]:
    chosen = {name: settings.pop(name) for name in [*settings] if name.isupper()}
    with mock.patch.multiple(limits, **chosen) if chosen else mock.MagicMock():
        yield
