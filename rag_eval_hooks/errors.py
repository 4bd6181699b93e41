"""Errors raised at start-up or by inline calls, never inside a request of the application."""

from __future__ import annotations

import inspect
import math
import re
from collections.abc import Iterable, Sequence
from numbers import Real
from typing import Any, Final

__all__ = [
    "BudgetError",
    "ConfigError",
    "InputError",
    "JudgeError",
    "JudgeTimeout",
    "JudgeUnavailable",
    "Misplaced",
    "NoOutcome",
    "RagEvalError",
    "RedactionError",
    "check_names",
    "check_number",
    "check_type",
    "install_command",
    "kind_of",
    "masked",
    "missing_extra",
    "nearest",
    "unknown",
    "wrong_type",
]

_SECRETS: Final = re.compile(r"(?<=://)[^\s/]*@|(?<=[?&;])[^\s=&?]+=[^\s&'\"]+")
"""Credentials and parameters of a URL, which may be keys."""


def masked(text: str) -> str:
    """Return a text with the credentials and parameters of URLs masked."""
    return _SECRETS.sub("**********", text) if "://" in text else text


def missing_extra(user: str, extra: str) -> ImportError:
    """Return the error for a part of this package whose extra is not installed."""
    return ImportError(f'{user} needs the extra "{extra}". {install_command(extra)}')


def install_command(extra: str) -> str:
    """Return the README's sentence about installing an extra."""
    return f'In a clone of rag-eval-hooks, run: pip install ".[{extra}]"'


def kind_of(value: object) -> str:
    """Describe the type of a wrong argument without showing its content."""
    if isinstance(value, type):
        return f"the class {value.__name__}"
    return value if isinstance(value, str) else type(value).__name__


class Misplaced:
    """An attribute that a framework reads first of an object in the wrong place; it raises."""

    def __init__(self, advice: str) -> None:
        self._advice = advice

    def __get__(self, _: object, owner: type) -> Any:
        raise AttributeError(f"{owner.__name__} {self._advice}")


def _end(sentence: str) -> str:
    return "" if sentence.endswith((".", "?", "!")) else "."


class RagEvalError(Exception):
    """Base class of all errors of this package."""


class ConfigError(RagEvalError, ValueError):
    """A setting has an invalid name or value.

    Attributes:
        field: Name of the setting, as in `RagEvalConfig` or the constructor.
        got: The value, or its masked repr if it contains credentials or parameters of a URL. The
            caller masks other secrets.
        wants: Accepted values in words.
        source: Variable or file of the value; empty for an argument.
        advice: What to do, in words.
    """

    def __init__(self, field: str, got: object, wants: str, *, source: str = "") -> None:
        plain = repr(got)
        shown = masked(plain)
        source = "" if source == "argument" else source
        place = f" ({source})" if source else ""
        super().__init__(f"{field} is {shown}{place}, but must be {wants}{_end(wants)}")
        self.field = field
        self.got = got if shown == plain else shown
        self.wants = wants
        self.source = source
        self.advice = f"set {field}: {wants}"

    @classmethod
    def unknown(
        cls, field: str, got: str, known: Iterable[str], *, listed: str = ""
    ) -> ConfigError:
        """Return the error for an unknown name.

        Args:
            field: The setting.
            got: The unknown name.
            known: The existing names; the error proposes the nearest.
            listed: Where to find the names, if they are too many for an error.
        """
        names = sorted(known)
        wants = f"a name listed by {listed}" if listed else f"one of {', '.join(names)}"
        error = cls(field, got, wants)
        if (near := nearest(got, names)) is not None:
            error.args = (
                f"{field} is {masked(repr(got))}; did you mean {near!r}? It must be {wants}.",
            )
            error.advice = f"set {field} to {near!r}, or to {wants}"
        return error

    @classmethod
    def no_setting(cls, name: str, near: str | None, *, source: str = "") -> ConfigError:
        """Return the error for an unknown setting, with a similar name, if any."""
        advice = "docs/configuration.md lists all settings"
        if near is not None:
            advice = f"did you mean {near}? {advice}"
        error = cls(name, "an unknown setting", advice, source=source)
        place = f" ({error.source})" if error.source else ""
        error.args = (f"{name} is not a setting{place}; {advice}.",)
        error.advice = advice
        return error


class InputError(RagEvalError, TypeError, ValueError):
    """An argument of a call at run time has a wrong type or value.

    Attributes:
        stated: The problem in names and types only, safe for a log.
    """

    def __init__(self, stated: str, shown: str = "") -> None:
        super().__init__(f"{stated} {shown}".strip())
        self.stated = stated


class NoOutcome(KeyError):
    """No outcome or score has this name."""

    __str__ = Exception.__str__

    def __init__(self, name: object, told: str) -> None:
        super().__init__(told)
        self.name = name


def wrong_type(name: str, wanted: str, value: object, advice: str = "") -> InputError:
    """Return the error for an argument of a wrong type, without its content."""
    advice = "Await it first." if inspect.isawaitable(value) else advice
    kind = f"the class {value.__name__}" if isinstance(value, type) else type(value).__name__
    shown = f"It is {value!r:.60}." if isinstance(value, str | int | float) else ""
    return InputError(f"{name} must be {wanted}, not {kind}. {advice}".rstrip(), shown)


def check_type(name: str, value: object, kinds: Any, wanted: str, advice: str = "") -> None:
    """Reject an argument that is neither None nor of these types.

    Raises:
        InputError: The argument is invalid.
    """
    if value is not None and not isinstance(value, kinds):
        raise wrong_type(name, wanted, value, advice)


def check_number(
    name: str, value: object, wanted: str = "a finite number", least: float = -math.inf
) -> None:
    """Reject an argument that is neither None nor a finite number of at least `least`.

    Raises:
        InputError: The argument is invalid.
    """
    check_type(name, value, Real, wanted)
    if isinstance(value, Real) and not (math.isfinite(value) and float(value) >= least):
        raise InputError(f"{name} must be {wanted}.", f"It is {value}.")


def check_names(what: str, given: Iterable[str], known: Sequence[str]) -> None:
    """Reject the first unknown name.

    Raises:
        InputError: A name is unknown.
    """
    for name in given:
        if name not in known:
            raise InputError(unknown(what, name, known))


def unknown(what: str, name: object, known: Sequence[str]) -> str:
    """Return a sentence about an unknown name, with the most similar name."""
    written = str(name)[:40]
    near = nearest(written, known)
    advice = f"did you mean {near!r}?" if near else f"there are {', '.join(known) or 'none'}."
    return f"{what} {written!r}; {advice}"


def nearest(name: str, names: Sequence[str]) -> str | None:
    """Return the most similar name, if one is similar enough."""
    # Late: only errors need it.
    import difflib

    whole = difflib.get_close_matches(name, names, n=1, cutoff=0.7)
    ends = {one.rpartition(".")[2]: one for one in reversed(names)}
    last = difflib.get_close_matches(name.rpartition(".")[2], list(ends), n=1, cutoff=0.75)
    return whole[0] if whole else ends[last[0]] if last else None


class JudgeError(RagEvalError):
    """A judge or an embedder returned no usable reply; its findings are `judge_failed`."""


class JudgeTimeout(JudgeError):
    """A judge or an embedder timed out; its findings are absent as `timeout`."""


class BudgetError(JudgeError):
    """The budget is used up, so a call was not sent, and the findings are `over_budget`."""


class JudgeUnavailable(JudgeError):
    """After too many failures, no call was made; the findings are `judge_unavailable`."""


class RedactionError(RagEvalError):
    """A sample could not be redacted, so it is not evaluated. The text names only a type."""
