"""What one question to a model takes, failed tries included."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

from rag_eval_hooks.errors import JudgeError
from rag_eval_hooks.judges.deadline import charge
from rag_eval_hooks.prompts import ReplyError
from rag_eval_hooks.usage import Usage

__all__ = ["Meter"]


class Meter:
    """Adds up requests and tokens, and puts the sum on an error that ends the question.

    Attributes:
        usage: The sum so far.
    """

    def __init__(self) -> None:
        self.usage = Usage()

    def sent(self) -> None:
        """Counts one request."""
        self._add(Usage(calls=1))

    def told(self, input_tokens: object, output_tokens: object) -> None:
        """Counts tokens as an endpoint tells them; what is no such number counts as none."""
        self._add(Usage(input_tokens=_count(input_tokens), output_tokens=_count(output_tokens)))

    def _add(self, usage: Usage) -> None:
        self.usage += usage
        # Also where it is found if this question is cancelled, and so never tells its own.
        charge(usage)

    @contextmanager
    def charging(self) -> Iterator[None]:
        """Errors of judging that leave the block carry the sum as `usage`."""
        try:
            yield
        except (JudgeError, ReplyError) as error:
            error.usage = self.usage
            raise


def _count(tokens: object) -> float:
    if isinstance(tokens, bool) or not isinstance(tokens, int):
        return 0.0
    return float(max(tokens, 0))
