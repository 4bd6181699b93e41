"""What a language model is to `LLMJudge`: text in, text out."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Protocol

from rag_eval_hooks.prompts import Prompt
from rag_eval_hooks.usage import Usage

__all__ = ["Chat", "Completion"]


def _nobody_asks() -> None:
    """What a reply without a memo does when it is accepted."""


@dataclass(frozen=True, slots=True)
class Completion:
    """One reply.

    Attributes:
        text: What the model said.
        usage: What it took, retries included.
        accept: To be called when all that was asked for was read from the text: only then does a
            memo keep it.
    """

    text: str
    usage: Usage = field(default_factory=lambda: Usage(calls=1))
    accept: Callable[[], None] = field(default=_nobody_asks, repr=False, compare=False)


class Chat(Protocol):
    """One language model behind some transport."""

    @property
    def name(self) -> str:
        """Kind and model, such as `openai:gpt-4o-mini`."""
        ...

    async def complete(self, prompt: Prompt) -> Completion:
        """The model's reply, and what it took.

        Each error tells as `usage` what the failed tries took, so that no cost is lost.

        Raises:
            ReplyError: The model replied, but with nothing that can be read: it was cut off, it
                refused. It is worth asking again.
            JudgeTimeout: It did not reply in time, retries included.
            JudgeError: It cannot be reached or does not accept the request.
        """
        ...

    async def aclose(self) -> None:
        """Releases connections."""
        ...
