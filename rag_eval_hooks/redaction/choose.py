"""From settings and arguments to a redactor."""

from __future__ import annotations

import hmac
import inspect
from collections.abc import Callable, Iterable
from typing import Any, Final, TypeAlias

from rag_eval_hooks.config.settings import REDACTIONS, RagEvalConfig
from rag_eval_hooks.errors import ConfigError
from rag_eval_hooks.redaction.matches import Rule
from rag_eval_hooks.redaction.redactor import Redactor
from rag_eval_hooks.redaction.session import RedactFunction

__all__ = ["RedactSpec", "choose_redactor"]

RedactSpec: TypeAlias = (
    "str | Rule | Callable[..., str] | Iterable[str | Rule | Callable[..., str]]"
)
_ALL: Final = ("key", "email", "iban", "card", "phone")
"""What `all` means. Neither IP addresses, which look like versions, nor Presidio."""


def choose_redactor(config: RagEvalConfig, redact: RedactSpec | None) -> Redactor:
    """The redactor that is asked for.

    Args:
        config: The settings.
        redact: Names, rules and functions instead of those in the settings, or None.

    Raises:
        ConfigError: A name is unknown, or an object is none of these.
        ImportError: A rule needs a package that is not installed.
    """
    asked = config.redact if redact is None else _listed(redact)
    names = [name for each in asked if isinstance(each, str) for name in _names(each)]
    rules = [*_patterns(config), *(each for each in asked if isinstance(each, Rule))]
    rules += [_rule(name, config) for name in (*_ALL, "ip", "presidio") if name in names]
    others = [each for each in asked if not isinstance(each, str | Rule)]
    key = config.redact_ids_key
    ids_key = None if key is None else key.get_secret_value().encode()
    functions = [_function(each) for each in others]
    return Redactor(rules, functions, ids_key, _mark(config, sorted(set(names)), asked, ids_key))


def _mark(
    config: RagEvalConfig, names: Iterable[str], asked: Iterable[Any], key: bytes | None
) -> str:
    """Equal for equal settings, in all processes; of objects only their names count."""
    objects = [each if hasattr(each, "__qualname__") else type(each) for each in asked]
    told = [
        *names,
        sorted(config.redact_patterns.items()),
        config.redact_regions,
        [_name(each) for each in objects if each is not str],
    ]
    # Keyed, so that it does not tell a key that was guessed from any other.
    return hmac.new(key or b"", repr(told).encode(), "sha256").hexdigest()[:16]


def _name(each: Any) -> str:
    # A method of a built-in type tells no module.
    return f"{getattr(each, '__module__', None)}.{each.__qualname__}"


def _listed(redact: RedactSpec) -> list[Any]:
    single = isinstance(redact, str | Rule) or callable(redact)
    if not single and not isinstance(redact, Iterable):
        raise ConfigError("redact", redact, REDACTIONS)
    return [redact] if single else list(redact)  # type: ignore[arg-type]


def _names(name: str) -> tuple[str, ...]:
    if name == "none":
        return ()
    if name == "all":
        return _ALL
    if name not in (*_ALL, "ip", "presidio"):
        raise ConfigError("redact", name, REDACTIONS)
    return (name,)


def _patterns(config: RagEvalConfig) -> list[Rule]:
    if not config.redact_patterns:
        return []
    from rag_eval_hooks.redaction.patterns import Patterns

    return [Patterns(config.redact_patterns)]


def _rule(name: str, config: RagEvalConfig) -> Rule:
    if name == "phone":
        from rag_eval_hooks.redaction.phones import REGIONS, Phones

        return Phones(config.redact_regions or REGIONS)
    if name == "presidio":
        from rag_eval_hooks.redaction.presidio import Presidio

        return Presidio()
    from rag_eval_hooks.redaction.addresses import IpAddresses
    from rag_eval_hooks.redaction.cards import Cards
    from rag_eval_hooks.redaction.emails import Emails
    from rag_eval_hooks.redaction.ibans import Ibans
    from rag_eval_hooks.redaction.keys import Keys

    plain: dict[str, type[Rule]] = {
        "key": Keys,
        "email": Emails,
        "iban": Ibans,
        "card": Cards,
        "ip": IpAddresses,
    }
    return plain[name]()


def _function(given: Any) -> RedactFunction:
    """The function as one of field and text, whichever of the two forms it has."""
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
