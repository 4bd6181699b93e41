"""What a check found, and what checks go by."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field
from enum import StrEnum
from pathlib import Path
from types import MappingProxyType
from typing import Any, TypeAlias

from rag_eval_hooks.config.settings import RagEvalConfig

__all__ = ["Check", "Result", "Setup", "Status"]

_NOTHING: Mapping[str, Any] = MappingProxyType({})


class Status(StrEnum):
    """How a check ended. Only `FAILED` makes the exit code 1."""

    OK = "ok"
    NOTE = "note"
    WARNING = "warning"
    FAILED = "failed"


@dataclass(frozen=True, slots=True, kw_only=True)
class Result:
    """What one check found. Holds no secret and no content.

    Attributes:
        check: What was checked, in a word or two.
        status: How it ended.
        text: What was found.
        advice: What to do, where something is wrong.
        figures: Numbers for machines, such as seconds and tokens.
    """

    check: str
    status: Status
    text: str
    advice: str = ""
    figures: Mapping[str, Any] = field(default_factory=lambda: _NOTHING)


@dataclass(frozen=True, slots=True, kw_only=True)
class Setup:
    """What checks go by.

    Attributes:
        config: The settings of the process.
        origins: By setting, where its value is from.
        otlp_endpoint: URL at which an OTLP receiver takes spans, or None.
        timeout: Seconds for one call over the network.
        spans: A file of spans in OTLP/JSON, one request a line, as `setup_tracing(path=...)` and
            the Collector's file exporter write it, or None.
    """

    config: RagEvalConfig
    origins: Mapping[str, str]
    otlp_endpoint: str | None
    timeout: float
    spans: Path | None = None


Check: TypeAlias = Callable[[Setup], Iterable[Result]]
"""One check; results are made as they come. What it raises is a failed check."""
