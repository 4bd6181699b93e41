"""Chat that answers an LLM judge rightly, or as a test wants it to."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Callable, Sequence
from dataclasses import replace
from typing import Any

from rag_eval_hooks.calls import Usage
from rag_eval_hooks.findings import Findings
from rag_eval_hooks.judges.llm import LLMJudge
from rag_eval_hooks.judges.model_calls import call_context
from rag_eval_hooks.prompts.prompt import Prompt
from tests.support.servers.brain import truthful_reply
from tests.support.servers.samples import VERIFY

Reply = dict[str, Any]
Step = Callable[[Reply], Reply | str] | Exception


def right(reply: Reply) -> Reply:
    return reply


def without(name: str, position: int) -> Callable[[Reply], Reply]:
    def changed(reply: Reply) -> Reply:
        rows = reply[name]
        return {**reply, name: rows[:position] + rows[position + 1 :]}

    return changed


USED = Usage(calls=1, input_tokens=120, output_tokens=60, cost=0.12)


class BrainChat:
    name = "brain:test"

    def __init__(self, steps: Sequence[Step] = (right,)) -> None:
        self._steps = list(steps)
        self.prompts: list[Prompt] = []
        self.in_flight = 0

    async def complete(self, prompt: Prompt) -> str:
        self.prompts.append(prompt)
        if (tally := call_context().tally) is not None:
            tally.usage += USED
        step = self._steps[min(len(self.prompts), len(self._steps)) - 1]
        self.in_flight += 1
        await asyncio.sleep(0)
        self.in_flight -= 1
        if isinstance(step, Exception):
            raise step
        reply = step(truthful_reply(body(prompt)))
        return reply if isinstance(reply, str) else json.dumps(reply)

    async def aclose(self) -> None: ...


def body(prompt: Prompt) -> dict[str, Any]:
    return {"messages": [{"role": "user", "content": prompt.user_with_shape}]}


async def verify(chat: BrainChat, **changes: Any) -> Findings:
    return await replace(VERIFY, **changes).by(LLMJudge(chat))
