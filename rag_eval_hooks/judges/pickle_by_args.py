"""Objects that another process makes anew from their arguments."""

from __future__ import annotations

from typing import Any, Self

__all__ = ["Rebuilt"]


class _Arguments:
    """Arguments that show nowhere: a key may be among them."""

    __slots__ = ("args", "kwargs")

    def __init__(self, args: tuple[Any, ...], kwargs: dict[str, Any]) -> None:
        self.args = args
        self.kwargs = kwargs

    def __repr__(self) -> str:
        return "..."


class Rebuilt:
    """Base of what holds threads, connections or models: pickled as a call of its class.

    The copy has the arguments of the original and nothing else: what was loaded, cached or
    counted stays behind. All arguments must be picklable themselves.
    """

    _made_with: _Arguments

    def __new__(cls, *args: Any, **kwargs: Any) -> Self:
        """Keeps the arguments."""
        made = super().__new__(cls)
        made._made_with = _Arguments(args, kwargs)
        return made

    def __reduce__(self) -> tuple[Any, ...]:
        """The call that makes the copy."""
        made_with = self._made_with
        return _call, (type(self), made_with.args, made_with.kwargs)


def _call(kind: type[Any], args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
    return kind(*args, **kwargs)
