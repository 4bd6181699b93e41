"""Redacts samples and span content before they reach a judge, spool, sink or exporter."""

from __future__ import annotations

import contextlib
import functools
import hmac
import importlib
import inspect
from collections.abc import Callable, Iterable
from typing import Any, Final, TypeAlias, cast

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

RedactSpec: TypeAlias = (
    "str | Rule | Callable[..., str] | Iterable[str | Rule | Callable[..., str]]"
)
_ALL: Final = ("key", "email", "iban", "card", "phone")
"""Rules that `all` selects. It omits `ip`, which also matches versions, and the slow `presidio`."""
_FINDERS: Final = {
    "key": "keys:keys",
    "email": "addresses:emails",
    "iban": "issued_numbers:ibans",
    "card": "issued_numbers:cards",
    "phone": "issued_numbers:Phones",
    "ip": "addresses:ip_addresses",
    "presidio": "presidio:Presidio",
}
"""Rules by name, in order of precedence."""


def choose_redactor(config: RagEvalConfig, redact: RedactSpec | None) -> Redactor:
    chosen = config.redact if redact is None else _as_list(redact)
    names = {name for each in chosen if isinstance(each, str) for name in _expanded(each)}
    finders: list[Finder] = [each.matches for each in chosen if isinstance(each, Rule)]
    finders += [_finder(name, config) for name in _FINDERS if name in names]
    functions = [_function(each) for each in chosen if not isinstance(each, str | Rule)]
    key = config.redact_ids_key
    ids_key = b"" if key is None else key.get_secret_value().encode()
    # All processes share the qualified names of objects.
    objects = [getattr(each, "__qualname__", type(each).__qualname__) for each in chosen]
    settings = [sorted(names), sorted(config.redact_regions), objects]
    # The digest depends on the key. With a plain hash, others could guess the key.
    mark = hmac.new(ids_key, repr(settings).encode(), "sha256").hexdigest()[:16]
    return Redactor(finders, functions, ids_key or None, mark)


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
    found = getattr(importlib.import_module(f"{__package__}.{module}"), attribute)
    arguments = {"phone": (config.redact_regions,), "presidio": ()}
    return cast(Finder, found(*arguments[name]).matches if name in arguments else found)


def _function(given: Any) -> RedactFunction:
    """Return a function of field and text, even if the given function takes only the text."""
    if isinstance(given, type) or not callable(given):
        raise ConfigError("redact", given, REDACTIONS)
    only_text = functools.wraps(given)(lambda _field, text: given(text))
    try:
        signature = inspect.signature(given)
    except (TypeError, ValueError):  # Some built-in functions have no signature.
        return only_text
    for arguments, function in ((("text",), only_text), (("field", "text"), given)):
        with contextlib.suppress(TypeError):
            signature.bind(*arguments)
            return function
    wants = "a function of a text, or of a field's name and a text"
    raise ConfigError("redact", given, f"{wants}.{place_of(given)}")
