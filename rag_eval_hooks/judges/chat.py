"""Interface of a language model to `LLMJudge`: text in, text out."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Protocol

from rag_eval_hooks.prompts import Prompt
from rag_eval_hooks.usage import Usage

__all__ = ["Chat", "Completion"]


def _ignore() -> None:
    """Accept a reply that no memo keeps."""


@dataclass(frozen=True, slots=True)
class Completion:
    """One reply.

    Attributes:
        text: Text of the reply.
        usage: What the reply took, retries included.
        accept: To be called when everything that was asked for was read from the text: only
            then does a memo keep it.
    """

    text: str
    usage: Usage = field(default_factory=lambda: Usage(calls=1))
    accept: Callable[[], None] = field(default=_ignore, repr=False, compare=False)


class Chat(Protocol):
    """One language model behind some transport."""

    @property
    def name(self) -> str:
        """Kind and model, such as `openai:gpt-4o-mini`."""
        ...

    async def complete(self, prompt: Prompt) -> Completion:
        """Return the model's reply and what it took.

        Each error carries as `usage` what the failed tries took, so that no cost is lost.

        Raises:
            ReplyError: The reply cannot be read: it was cut off, or is a refusal. It is worth
                asking again.
            JudgeTimeout: There was no reply in time, retries included.
            JudgeError: The model cannot be reached or does not accept the request.
        """
        ...

    async def aclose(self) -> None:
        """Release connections."""
        ...
