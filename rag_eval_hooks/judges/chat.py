"""What a language model is to `LLMJudge`: text in, text out."""

from __future__ import annotations

from typing import Protocol

from rag_eval_hooks.prompts import Prompt

__all__ = ["Chat"]


class Chat(Protocol):
    """One language model behind some transport."""

    @property
    def name(self) -> str:
        """Kind and model, such as `openai:gpt-4o-mini`."""
        ...

    async def complete(self, prompt: Prompt) -> str:
        """The model's reply as text.

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
