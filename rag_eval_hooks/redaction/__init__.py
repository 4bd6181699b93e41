"""Redacts personal data and secrets in samples and in the content of RAG spans.

The redaction runs before a judge, the spool, a sink or an exporter receives the text.
"""

from __future__ import annotations

import hashlib
import importlib
import inspect
from collections.abc import Iterable
from typing import Any, Final, TypeAlias

from rag_eval_hooks.config.settings import REDACTIONS, RagEvalConfig
from rag_eval_hooks.errors import ConfigError
from rag_eval_hooks.incidents import place_of
from rag_eval_hooks.redaction.redactor import (
    MARGIN,
    Finder,
    Match,
    RedactFunction,
    Redactor,
    Rule,
    Session,
)

__all__ = ["MARGIN", "Match", "RedactSpec", "Redactor", "Rule", "Session", "choose_redactor"]

RedactSpec: TypeAlias = "str | Rule | RedactFunction | Iterable[str | Rule | RedactFunction]"
_ALL: Final = ("key", "email", "iban", "card", "phone")
"""Rules that `all` selects. It omits `ip`, which also matches versions, and the slow `presidio`."""
# In order of precedence.
_FINDERS: Final = {
    "key": "keys:keys",
    "email": "addresses:emails",
    "iban": "issued_numbers:ibans",
    "card": "issued_numbers:cards",
    "phone": "issued_numbers:phones",
    "ip": "addresses:ip_addresses",
    "presidio": "own_rules:Presidio",
}


def choose_redactor(config: RagEvalConfig, redact: RedactSpec | None) -> Redactor:
    chosen = config.redact if redact is None else _as_list(redact)
    names = {name for each in chosen if isinstance(each, str) for name in _expanded(each)}
    finders: list[Finder] = [each.matches for each in chosen if isinstance(each, Rule)]
    finders += [_finder(name, config) for name in _FINDERS if name in names]
    functions = [_function(each) for each in chosen if not isinstance(each, str | Rule)]
    # All processes share the qualified names of objects.
    objects = [getattr(each, "__qualname__", type(each).__qualname__) for each in chosen]
    settings = [sorted(names), sorted(config.redact_regions), objects]
    mark = hashlib.sha256(repr(settings).encode()).hexdigest()[:16]
    return Redactor(finders, functions, mark)


def _as_list(redact: RedactSpec) -> list[Any]:
    if isinstance(redact, str | Rule) or callable(redact):
        return [redact]
    if not isinstance(redact, Iterable):
        raise ConfigError("redact", redact, REDACTIONS)
    return list(redact)


def _expanded(name: str) -> tuple[str, ...]:
    if name not in ("none", "all", *_FINDERS):
        raise ConfigError("redact", name, REDACTIONS)
    return {"none": (), "all": _ALL}.get(name, (name,))


def _finder(name: str, config: RagEvalConfig) -> Finder:
    # Import on demand, because some modules need an extra, and all compile long expressions.
    module, _, attribute = _FINDERS[name].partition(":")
    found: Any = getattr(importlib.import_module(f"{__package__}.{module}"), attribute)
    if name == "phone":
        found = found(config.redact_regions)
    finder: Finder = found().matches if name == "presidio" else found
    return finder


def _function(given: Any) -> RedactFunction:
    if isinstance(given, type) or not callable(given):
        raise ConfigError("redact", given, REDACTIONS)
    try:
        inspect.signature(given).bind("text")
    except TypeError:
        wants = f"a function of a text.{place_of(given)}"
        raise ConfigError("redact", given, wants) from None
    except ValueError:
        pass  # Some built-in functions have no signature.
    function: RedactFunction = given
    return function
