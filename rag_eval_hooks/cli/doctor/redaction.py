"""Whether the chosen redaction can be set up and works."""

from __future__ import annotations

from collections.abc import Iterator

from rag_eval_hooks.cli.doctor.result import Result, Setup, Status
from rag_eval_hooks.errors import ConfigError, RedactionError
from rag_eval_hooks.redaction import choose_redactor

__all__ = ["check_redaction"]

_TEXT = "Write to jane@example.com, or call +49 30 901820."


def check_redaction(setup: Setup) -> Iterator[Result]:
    """The rules on a sentence of our own."""
    try:
        redactor = choose_redactor(setup.config, None)
        redacted = redactor.session().text("question", _TEXT)
    except (ConfigError, ImportError, RedactionError) as error:
        advice = _advice(error)
        yield Result(check="redaction", status=Status.FAILED, text=str(error), advice=advice)
        return
    if not redactor.active:
        text = "none: the judge and the sinks get texts as they are"
        advice = "" if setup.config.judge == "local" else "set redact, such as redact=all"
        yield Result(check="redaction", status=Status.NOTE, text=text, advice=advice)
        return
    names = ", ".join((*setup.config.redact, *setup.config.redact_patterns)) or "ids"
    yield Result(check="redaction", status=Status.OK, text=f"{names}; makes {redacted!r}")


def _advice(error: Exception) -> str:
    if isinstance(error, ConfigError):
        return f"set {error.field}: {error.wants}; see docs/privacy.md"
    if isinstance(error, ImportError):
        return "install it: " + str(error).rpartition(": ")[2]
    return "see docs/privacy.md"
