"""Errors raised at start-up or by inline calls, never inside a request of the application."""

from __future__ import annotations

import difflib
import re
from collections.abc import Iterable
from typing import Final

from rag_eval_hooks.usage import Usage

__all__ = [
    "BudgetError",
    "ConfigError",
    "JudgeError",
    "JudgeTimeout",
    "JudgeUnavailable",
    "RagEvalError",
    "RedactionError",
    "masked",
]

_SECRETS: Final = re.compile(r"(?<=://)[^\s/]*@|(?<=[?&;])[^\s=&?]+=[^\s&'\"]+")
"""Credentials of a URL, and its parameters, which may be keys."""


def masked(text: str) -> str:
    """Return a text with the credentials and parameters of URLs masked."""
    return _SECRETS.sub("**********", text) if "://" in text else text


class RagEvalError(Exception):
    """Base class of all errors of this package."""


class ConfigError(RagEvalError, ValueError):
    """Setting with a name or a value that cannot be used.

    Attributes:
        field: Name of the setting, as in `RagEvalConfig` or the constructor.
        got: Value given, or its masked repr if it holds credentials or parameters of a URL.
            Other secrets are masked by the caller.
        wants: Accepted values, in words.
    """

    def __init__(self, field: str, got: object, wants: str) -> None:
        plain = repr(got)
        shown = masked(plain)
        super().__init__(f"{field}: got {shown}; wants {wants}")
        self.field = field
        self.got = got if shown == plain else shown
        self.wants = wants

    @classmethod
    def unknown(cls, field: str, got: str, known: Iterable[str]) -> ConfigError:
        """Return the error for a name that is none of the known ones.

        Args:
            field: The setting, or the name itself where that is no setting.
            got: The name that was written.
            known: The names that exist; all are listed and the nearest is proposed.
        """
        names = sorted(known)
        near = difflib.get_close_matches(got, names, n=1)
        proposal = f"; did you mean {near[0]!r}?" if near else ""
        return cls(field, got, f"one of {', '.join(names)}{proposal}")

    @classmethod
    def removed(cls, field: str, advice: str) -> ConfigError:
        """Return the error for a setting that older versions had, with what to do instead."""
        error = cls(field, "a removed setting", advice)
        error.args = (f"{field}: this setting was removed; {advice}",)
        return error


class JudgeError(RagEvalError):
    """A judge or an embedder gave no usable reply; its findings are absent as `judge_failed`.

    Attributes:
        usage: Calls and tokens of the failed tries.
    """

    usage: Usage = Usage()


class JudgeTimeout(JudgeError):
    """A judge or an embedder did not reply in time; its findings are absent as `timeout`."""


class BudgetError(JudgeError):
    """The budget has no room for a call, so it was not sent; findings are `over_budget`."""


class JudgeUnavailable(JudgeError):
    """Too many calls failed in a row: none was made; its findings are `judge_unavailable`."""


class RedactionError(RagEvalError):
    """A sample could not be redacted, so it is not evaluated; its text names a type only."""
