"""Result of a check, and the settings and arguments that checks read."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field
from enum import StrEnum
from pathlib import Path
from types import MappingProxyType
from typing import Any, TypeAlias

from rag_eval_hooks.config.settings import RagEvalConfig
from rag_eval_hooks.errors import ConfigError

__all__ = ["Check", "CheckResult", "CheckStatus", "Setup", "advice_for"]

_NOTHING: Mapping[str, Any] = MappingProxyType({})


class CheckStatus(StrEnum):
    """Outcome of a check. Only `FAILED` makes the exit code 1."""

    OK = "ok"
    NOTE = "note"
    WARNING = "warning"
    FAILED = "failed"


@dataclass(frozen=True, slots=True)
class CheckResult:
    """Finding of one check. Holds no secret and no content.

    Attributes:
        status: Outcome of the check.
        text: The finding, in a sentence.
        advice: Remedy, if something is wrong.
        figures: Numbers for machines, such as seconds and tokens.
        check: Subject in a word or two; empty for the name in the list of checks.
    """

    status: CheckStatus
    text: str
    advice: str = ""
    figures: Mapping[str, Any] = field(default_factory=lambda: _NOTHING)
    check: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class Setup:
    """Settings and arguments that checks read.

    Attributes:
        config: Settings of the process.
        origins: Origin of each setting that is not at its default.
        otlp_endpoint: URL at which an OTLP receiver takes spans, or None.
        timeout: Seconds for one call over the network.
        spans: File of spans in OTLP/JSON, one request a line, as `setup_tracing(path=...)` and
            the Collector's file exporter write it, or None.
    """

    config: RagEvalConfig
    origins: Mapping[str, str]
    otlp_endpoint: str | None
    timeout: float
    spans: Path | None = None


Check: TypeAlias = Callable[[Setup], Iterable[CheckResult]]
"""One check; it yields results as they come. An exception is a failed check."""


def advice_for(error: Exception) -> str:
    """Return the remedy for a setting that cannot be used or a package that is missing."""
    if isinstance(error, ConfigError):
        return error.advice
    if isinstance(error, ImportError):
        return "install it: " + str(error).rpartition(": ")[2]
    return ""
