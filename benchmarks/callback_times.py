"""Measure the slowest callback for unusual payloads.

    python -m benchmarks.callback_times

All figures are CPU time of the calling thread.
"""

from __future__ import annotations

import json
import random
import time
from collections.abc import Callable
from functools import partial
from typing import Any

from langchain_core.documents import Document
from langchain_core.language_models.fake_chat_models import FakeListChatModel
from langchain_core.runnables import RunnableLambda, RunnablePassthrough

from rag_eval_hooks import RagEval
from rag_eval_hooks_langchain import RagEvalCallbackHandler

EVENTS = (
    *("on_chain_start", "on_chain_end", "on_chat_model_start", "on_llm_end"),
    *("on_retriever_start", "on_retriever_end", "on_tool_start", "on_tool_end"),
)
DICE = random.Random(3)
WORDS = [f"word{number}" for number in range(4000)]
MODEL = FakeListChatModel(responses=["It leaves at 07:40 from the north quay."])


def passage(words: int) -> str:
    return " ".join(DICE.choices(WORDS, k=words))


def cycle() -> dict[str, Any]:
    made: dict[str, Any] = {}
    made.update(again=made, many=[made] * 5000)
    return made


PAYLOADS: dict[str, Callable[[], Any]] = {
    "36,000 numbers": lambda: {n: dict.fromkeys(map(str, range(40)), 0.5) for n in range(900)},
    "1,000 rows": lambda: [{"name": f"n{n}", "note": passage(5)} for n in range(1000)],
    "1 MB of JSON": lambda: json.dumps([{"snippet": passage(40)} for _ in range(3500)]),
    "50 documents of 2 KB": lambda: [Document(passage(300), id=str(one)) for one in range(50)],
    "cycle": cycle,
}


def found(payload: Any, asked: Any) -> dict[str, Any]:
    return {"found": payload, "question": asked}


def callbacks(chain: Any) -> list[tuple[float, str]]:
    times: list[tuple[float, str]] = []

    def measured(name: str, call: Callable[..., None]) -> Callable[..., None]:
        def handle(*args: Any, **event: Any) -> None:
            start = time.thread_time_ns()
            call(*args, **event)
            times.append(((time.thread_time_ns() - start) / 1e6, name))

        return handle

    with RagEval(sample_rate=0.0, sinks=[]) as evals:
        handler = RagEvalCallbackHandler(evals)
        for name in EVENTS:
            setattr(handler, name, measured(name, getattr(handler, name)))
        for number in range(3):
            chain.invoke(f"question {number}?", {"callbacks": [handler]})
    return times


def main() -> None:
    for title, make in PAYLOADS.items():
        payload = make()
        find = RunnableLambda[Any, Any](partial(found, payload))
        answer = RunnableLambda[Any, Any](lambda _: MODEL.invoke("question"))
        longest, event = max(callbacks(find | RunnablePassthrough() | answer))
        print(f"{title:24} {longest:7.2f} ms  {event}")


if __name__ == "__main__":
    main()
