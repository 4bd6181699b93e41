"""Keywords that every judge over a language model takes, and how its chat is equipped."""

from __future__ import annotations

from typing import TypedDict

from rag_eval_hooks.judges.chat import Chat
from rag_eval_hooks.judges.llm import Calls, NvidiaCalls
from rag_eval_hooks.judges.memo import Memo, MemoChat
from rag_eval_hooks.judges.prices import PricedChat, Prices

__all__ = ["LLMOptions", "equipped"]


class LLMOptions(TypedDict, total=False):
    """Keywords of `LLMJudge`; each has its default there.

    Attributes:
        attempts: How often one task may be asked in all, until every item has a valid reply.
        calls: `fused` for one call over all findings of a task, `single` for one call each.
        nvidia_calls: `independent` or `paired`: how the templates of ratings are asked.
        verify_tokens: Tokens of contexts in one verification; longer ones are split.
    """

    attempts: int
    calls: Calls
    nvidia_calls: NvidiaCalls
    verify_tokens: int


def equipped(chat: Chat, memo: Memo | None, prices: Prices | None, *, scope: str = "") -> Chat:
    """The chat with a memo and prices, where they are given.

    Args:
        chat: The model.
        memo: Keeps its valid replies.
        prices: Puts costs on its usage; a reply from the memo costs nothing.
        scope: What tells this model from others of its name, such as its endpoint.
    """
    if memo is not None:
        chat = MemoChat(chat, memo, scope=scope)
    return chat if prices is None else PricedChat(chat, prices)
