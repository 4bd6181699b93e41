"""Builds a redactor from settings and arguments."""

from __future__ import annotations

import hmac
import inspect
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any, Final, TypeAlias

from rag_eval_hooks.config.settings import REDACTIONS, RagEvalConfig
from rag_eval_hooks.errors import ConfigError
from rag_eval_hooks.redaction.checked_numbers import Cards, Ibans, IpAddresses
from rag_eval_hooks.redaction.emails_and_keys import Emails, Keys
from rag_eval_hooks.redaction.redactor import RedactFunction, Redactor
from rag_eval_hooks.redaction.rule import Rule

__all__ = ["RedactSpec", "choose_redactor"]

RedactSpec: TypeAlias = (
    "str | Rule | Callable[..., str] | Iterable[str | Rule | Callable[..., str]]"
)


def _phones(regions: Sequence[str]) -> Rule:
    from rag_eval_hooks.redaction.phones import REGIONS, Phones

    return Phones(regions or REGIONS)


def _presidio(_: Sequence[str]) -> Rule:
    from rag_eval_hooks.redaction.presidio import Presidio

    return Presidio()


_RULES: Final[Mapping[str, Callable[[Sequence[str]], Rule]]] = {
    "key": lambda _: Keys(),
    "email": lambda _: Emails(),
    "iban": lambda _: Ibans(),
    "card": lambda _: Cards(),
    "phone": _phones,
    "ip": lambda _: IpAddresses(),
    "presidio": _presidio,
}
"""Rules by name, in order of precedence."""
_ALL: Final = ("key", "email", "iban", "card", "phone")
"""Rules of `all`: neither IP addresses, which look like versions, nor Presidio, which is slow."""


def choose_redactor(config: RagEvalConfig, redact: RedactSpec | None) -> Redactor:
    """Return the redactor for settings and an argument.

    Raises:
        ConfigError: A name is unknown, a pattern is invalid, or an object is neither a name nor
            a rule nor a function.
        ImportError: A rule needs a package that is not installed.
    """
    chosen = config.redact if redact is None else _as_list(redact)
    names = {name for each in chosen if isinstance(each, str) for name in _expanded(each)}
    rules = [each for each in chosen if isinstance(each, Rule)]
    regions = sorted({*config.redact_regions})
    rules += [make(regions) for name, make in _RULES.items() if name in names]
    functions = [_function(each) for each in chosen if not isinstance(each, str | Rule)]
    key = config.redact_ids_key
    ids_key = None if key is None else key.get_secret_value().encode()
    return Redactor(rules, functions, ids_key, _mark([*sorted(names), *regions], chosen, ids_key))


def _mark(names: Iterable[str], chosen: Iterable[Any], key: bytes | None) -> str:
    """Return a digest that is equal for equal settings in all processes.

    Objects count by their qualified names only.
    """
    objects = [each if hasattr(each, "__qualname__") else type(each) for each in chosen]
    settings = [
        *names,
        [_qualified_name(each) for each in objects if each is not str],
    ]
    # Keyed, so that nobody can test guesses of the key against the digest.
    return hmac.new(key or b"", repr(settings).encode(), "sha256").hexdigest()[:16]


def _qualified_name(each: Any) -> str:
    # Methods of built-in types have no module.
    return f"{getattr(each, '__module__', None)}.{each.__qualname__}"


def _as_list(redact: RedactSpec) -> list[Any]:
    if isinstance(redact, str | Rule) or callable(redact):
        return [redact]
    if not isinstance(redact, Iterable):
        raise ConfigError("redact", redact, REDACTIONS)
    return list(redact)


def _expanded(name: str) -> tuple[str, ...]:
    if name == "none":
        return ()
    if name == "all":
        return _ALL
    if name not in _RULES:
        raise ConfigError("redact", name, REDACTIONS)
    return (name,)


def _function(given: Any) -> RedactFunction:
    """Return a function of field and text, whether the given one takes both or the text alone."""
    if isinstance(given, type) or not callable(given):
        raise ConfigError("redact", given, REDACTIONS)
    try:
        parameters = inspect.signature(given).parameters.values()
    except (TypeError, ValueError):
        return lambda _field, text: given(text)
    required = [p for p in parameters if p.default is p.empty and p.kind in (0, 1)]
    if len(required) == 2:
        return lambda field, text: given(field, text)
    if len(required) < 2:
        return lambda _field, text: given(text)
    raise ConfigError("redact", given, "a function of a text, or of a field's name and a text")
