"""Metering of what one question to a model takes, failed tries included."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import contextmanager

from rag_eval_hooks.errors import JudgeError
from rag_eval_hooks.judges.calls.budget import Budget, Reservation
from rag_eval_hooks.judges.calls.context import call_context
from rag_eval_hooks.judges.calls.failures import is_time_out
from rag_eval_hooks.prompts import Prompt, ReplyError
from rag_eval_hooks.prompts.token_budget import tokens
from rag_eval_hooks.usage import Usage

__all__ = ["Meter", "token_count"]


class Meter:
    """Adds up requests and tokens of one question, and puts the sum on an error that ends it.

    Within `charging`, each request asks the budget of the evaluation before it is sent.

    Args:
        prompt: The question, for an estimate of its tokens.
        embedded: Texts to embed, instead of a question.

    Attributes:
        usage: The sum so far.
    """

    def __init__(
        self, prompt: Prompt | None = None, *, embedded: Sequence[str] | None = None
    ) -> None:
        self.usage = Usage()
        self._prompt = prompt
        self._embedded = embedded
        self._budget: Budget | None = None
        self._reserved: Reservation | None = None

    @contextmanager
    def charging(self) -> Iterator[None]:
        """Put the sum as `usage` on errors of judging that leave the block."""
        self._budget = call_context().budget
        try:
            yield
        except (JudgeError, ReplyError) as error:
            error.usage = self.usage
            raise
        finally:
            self._reserved = None

    @contextmanager
    def sending(self) -> Iterator[None]:
        """Count the block as one request.

        A refused request takes no tokens. The tokens of a request without a reply in time are
        unknown: the budget keeps its estimate.

        Raises:
            BudgetError: The budget does not admit it.
        """
        self._reserved = None
        if self._budget is not None:
            self._reserved = self._budget.reserve(
                self._expected(), embedding=self._embedded is not None
            )
        self._add(Usage(calls=1))
        try:
            yield
        except Exception as error:
            if self._reserved is not None and not is_time_out(error):
                self._reserved.fail()
                self._reserved = None
            raise

    def replied(self, input_tokens: object, output_tokens: object) -> None:
        """Count the tokens that an endpoint reports; anything but whole numbers counts as 0."""
        used = Usage(
            input_tokens=token_count(input_tokens), output_tokens=token_count(output_tokens)
        )
        self._add(used)
        if self._reserved is not None:
            self._reserved.settle(used.input_tokens, used.output_tokens)
            self._reserved = None

    def _add(self, usage: Usage) -> None:
        self.usage += usage
        # The context's meter is still readable when this question is cancelled.
        if (meter := call_context().meter) is not None:
            meter.usage += usage

    def _expected(self) -> float:
        prompt, embedded = self._prompt, self._embedded or ()
        texts = embedded if prompt is None else (prompt.system, prompt.user)
        return float(sum(map(tokens, texts)))


def token_count(tokens: object) -> float:
    """Return a reported number of tokens; anything but a whole number counts as 0."""
    if isinstance(tokens, bool) or not isinstance(tokens, int):
        return 0.0
    return float(max(tokens, 0))
