"""What one question to a model takes, failed tries included."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import contextmanager

from rag_eval_hooks.errors import JudgeError
from rag_eval_hooks.judges.calls.allowance import Allowance, Reservation, current_allowance
from rag_eval_hooks.judges.calls.deadline import charge
from rag_eval_hooks.judges.calls.failures import is_time_out
from rag_eval_hooks.prompts import Prompt, ReplyError
from rag_eval_hooks.prompts.parts import tokens
from rag_eval_hooks.usage import Usage

__all__ = ["Meter", "token_count"]


class Meter:
    """Adds up requests and tokens, and puts the sum on an error that ends the question.

    Within `charging`, each request asks the budget of the evaluation for room before it is sent.

    Args:
        prompt: The question, for an estimate of its tokens.
        embedded: Texts of which vectors are wanted, instead of a question.

    Attributes:
        usage: The sum so far.
    """

    def __init__(
        self, prompt: Prompt | None = None, *, embedded: Sequence[str] | None = None
    ) -> None:
        self.usage = Usage()
        self._prompt = prompt
        self._embedded = embedded
        self._allowance: Allowance | None = None
        self._reserved: Reservation | None = None

    @contextmanager
    def sending(self) -> Iterator[None]:
        """One request.

        One that is refused takes no tokens. What one takes that gets no reply in time, or is cut
        short, nobody tells: its estimate stays spent.

        Raises:
            BudgetError: The budget has no room for it.
        """
        self._begin()
        try:
            yield
        except Exception as error:
            if self._reserved is not None and not is_time_out(error):
                self._reserved.fail()
                self._reserved = None
            raise

    def told(self, input_tokens: object, output_tokens: object) -> None:
        """Counts tokens as an endpoint tells them; what is no such number counts as none."""
        used = Usage(
            input_tokens=token_count(input_tokens), output_tokens=token_count(output_tokens)
        )
        self._add(used)
        if self._reserved is not None:
            self._reserved.settle(used.input_tokens, used.output_tokens)
            self._reserved = None

    def _add(self, usage: Usage) -> None:
        self.usage += usage
        # Also where it is found if this question is cancelled, and so never tells its own.
        charge(usage)

    @contextmanager
    def charging(self) -> Iterator[None]:
        """Errors of judging that leave the block carry the sum as `usage`."""
        self._allowance = current_allowance()
        try:
            yield
        except (JudgeError, ReplyError) as error:
            error.usage = self.usage
            raise
        finally:
            self._reserved = None

    def _begin(self) -> None:
        self._reserved = None
        if self._allowance is not None:
            self._reserved = self._allowance.reserve(
                self._expected(), embedding=self._embedded is not None
            )
        self._add(Usage(calls=1))

    def _expected(self) -> float:
        prompt, embedded = self._prompt, self._embedded or ()
        texts = embedded if prompt is None else (prompt.system, prompt.user)
        return float(sum(map(tokens, texts)))


def token_count(tokens: object) -> float:
    """Tokens as an endpoint tells them; what is no such number counts as none."""
    if isinstance(tokens, bool) or not isinstance(tokens, int):
        return 0.0
    return float(max(tokens, 0))
