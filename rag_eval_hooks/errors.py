"""Exceptions of start-up and of methods such as `evaluate`.

The handling of a captured request never raises an exception in the application.
"""

from __future__ import annotations

import inspect
import math
import re
from collections.abc import Iterable, Sequence
from enum import StrEnum
from numbers import Real
from typing import Any, Final, Self, TypeVar

E = TypeVar("E", bound=StrEnum)

_SECRETS: Final = re.compile(r"(?<=://)[^\s/]*@|(?<=[?&;])[^\s=&?]+=[^\s&'\"]+")


def masked(text: str) -> str:
    return _SECRETS.sub("**********", text) if "://" in text else text


def missing_extra(user: str, extra: str) -> ImportError:
    return ImportError(f'{user} needs the extra "{extra}". {install_command(extra)}')


def install_command(extra: str) -> str:
    return f'In a clone of rag-eval-hooks, run: pip install ".[{extra}]"'


def kind_of(value: object) -> str:
    if isinstance(value, type):
        return f"the class {value.__name__}"
    return value if isinstance(value, str) else type(value).__name__


class OnePerProcess:
    def __copy__(self) -> Self:
        return self

    def __deepcopy__(self, _: object) -> Self:
        return self


class RagEvalError(Exception):
    """Base class of this package's errors."""


class ConfigError(RagEvalError, ValueError):
    """A setting's name or value is invalid.

    Attributes:
        field: Name of the setting, as in `RagEvalConfig` or the constructor.
        got: The rejected value. Asterisks replace credentials and parameters in URLs.
        wants: Description of the accepted values.
    """

    def __init__(
        self, field: str, got: object, wants: str, *, source: str = "", told: str = ""
    ) -> None:
        shown = masked(repr(got))
        place = f" ({source})" if source not in ("", "argument") else ""
        end = "" if wants.endswith((".", "?", "!")) else "."
        super().__init__(told or f"{field} is {shown}{place}, but must be {wants}{end}")
        self.field, self.wants = field, wants
        self.got = got if shown == repr(got) else shown

    @classmethod
    def unknown(
        cls, field: str, got: str, known: Iterable[str], *, listed: str = ""
    ) -> ConfigError:
        names = sorted(known)
        wants = f"a name listed by {listed}" if listed else f"one of {', '.join(names)}"
        return cls(field, got, wants + suggestion(got, names))


class InputError(RagEvalError, TypeError, ValueError):
    """An argument has an invalid type or value.

    Attributes:
        stated: The message without argument values, safe to log.
    """

    def __init__(self, stated: str, shown: str = "") -> None:
        super().__init__(f"{stated} {shown}".strip())
        self.stated = stated


def wrong_type(name: str, wanted: str, value: object, advice: str = "") -> InputError:
    if inspect.isawaitable(value):
        advice = "Await it first."
    kind = "str" if isinstance(value, str) else kind_of(value)
    shown = f"It is {value!r:.60}." if isinstance(value, str | int | float) else ""
    return InputError(f"{name} must be {wanted}, not {kind}. {advice}".rstrip(), shown)


def check_type(name: str, value: object, kinds: Any, wanted: str) -> None:
    if value is not None and not isinstance(value, kinds):
        raise wrong_type(name, wanted, value)


def check_number(
    name: str,
    value: object,
    wanted: str = "a finite number",
    least: float = -math.inf,
    most: float = math.inf,
) -> None:
    if value is None:
        return
    if not isinstance(value, Real):
        raise wrong_type(name, wanted, value)
    if not (math.isfinite(value) and least <= float(value) <= most):
        raise InputError(f"{name} must be {wanted}.", f"It is {value}.")


def member(name: str, kind: type[E], value: object) -> E:
    if isinstance(value, kind):
        return value
    if value not in list(kind):
        raise InputError(f"{name} must be one of {', '.join(kind)}.", f"It is {value!r:.60}.")
    return kind(str(value))


def check_count(field: str, value: object, least: int = 1) -> None:
    if not isinstance(value, int) or isinstance(value, bool) or value < least:
        raise ConfigError(field, value, f"a whole number, {least} or more")


def check_names(what: str, given: Iterable[str], known: Sequence[str]) -> None:
    for name in given:
        if name not in known:
            raise InputError(unknown(what, name, known))


def unknown(what: str, name: object, known: Sequence[str]) -> str:
    written = str(name)[:40]
    names = f"; known names: {', '.join(known) or 'none'}."
    return f"{what} {written!r}{suggestion(written, known) or names}"


def suggestion(name: str, known: Sequence[str]) -> str:
    near = nearest(name, known)
    return f"; did you mean {near!r}?" if near else ""


def nearest(name: str, names: Sequence[str]) -> str | None:
    # A slow import, which only errors need.
    import difflib

    whole = difflib.get_close_matches(name, names, n=1, cutoff=0.7)
    ends = {one.rpartition(".")[2]: one for one in reversed(names)}
    last = difflib.get_close_matches(name.rpartition(".")[2], list(ends), n=1, cutoff=0.72)
    return whole[0] if whole else ends[last[0]] if last else None


class JudgeError(RagEvalError):
    """A judge or embedder returned no usable reply. The missing scores' cause is `judge_failed`."""


class JudgeTimeout(JudgeError):
    """A judge or embedder timed out. The missing scores' cause is `timeout`."""


class BudgetError(JudgeError):
    """The budget is used up. The missing scores' cause is `over_budget`."""


class JudgeUnavailable(JudgeError):
    """After repeated failures, the client pauses its calls.

    The missing scores' cause is `judge_unavailable`.
    """


class RedactionError(RagEvalError):
    """Redaction failed, so the text is not evaluated. The message does not quote the text."""
