"""Who is asked before a call to a judge is sent."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from contextvars import ContextVar
from typing import Protocol

__all__ = ["Allowance", "Reservation", "allowing", "current_allowance"]


class Reservation(Protocol):
    """Room in a budget that one call in flight has taken."""

    def settle(self, input_tokens: float, output_tokens: float) -> None:
        """Gives the room back that the call did not need, or takes what it needed more.

        Args:
            input_tokens: As the endpoint told them; 0 where it does not count.
            output_tokens: The same.
        """
        ...

    def fail(self) -> None:
        """The call was refused: it counts as a call, and took no tokens."""
        ...


class Allowance(Protocol):
    """A budget, as a judge sees it."""

    def reserve(self, input_tokens: float, *, embedding: bool = False) -> Reservation:
        """Takes room for one call.

        Args:
            input_tokens: Tokens of its prompt or of the texts to embed, an estimate.
            embedding: Whether it is for vectors: then there is no reply of tokens, and the
                embedder's price counts.

        Raises:
            BudgetError: There is none: the call must not be sent.
        """
        ...


_allowance: ContextVar[Allowance | None] = ContextVar("rag_eval_hooks_allowance", default=None)


@contextmanager
def allowing(allowance: Allowance | None) -> Iterator[None]:
    """Every judge or embedder call in the block, and in tasks begun in it, asks the allowance."""
    token = _allowance.set(allowance)
    try:
        yield
    finally:
        _allowance.reset(token)


def current_allowance() -> Allowance | None:
    """The allowance of the evaluation that the caller runs in."""
    return _allowance.get()
