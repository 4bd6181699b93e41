"""Longest callback of the LangChain handler by payload, and the cost of a sampled-out request.

    python benchmarks/callback_times.py

CPU time of the thread that calls, not wall time.
"""

from __future__ import annotations

import json
import random
import time
from collections.abc import Callable, Mapping
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
REQUESTS = 300


def passage(words: int) -> str:
    """Return a text of drawn words."""
    return " ".join(DICE.choices(WORDS, k=words))


class Lazy(Mapping[str, str]):
    """Loads its values on access."""

    def __getitem__(self, key: str) -> str:
        return passage(200)

    def __iter__(self) -> Any:
        return iter([f"key {number}" for number in range(200)])

    def __len__(self) -> int:
        return 200


def cycle() -> dict[str, Any]:
    """Return a value that holds itself."""
    made: dict[str, Any] = {}
    made.update(again=made, many=[made] * 5000)
    return made


PAYLOADS: dict[str, Callable[[], Any]] = {
    "36,000 numbers": lambda: {
        f"k{one}": {f"a{two}": DICE.random() for two in range(40)} for one in range(900)
    },
    "1,000 rows": lambda: [
        {"name": f"n{number}", "price": number * 1.5, "note": passage(5)} for number in range(1000)
    ],
    "1 MB of JSON": lambda: json.dumps([{"snippet": passage(40)} for _ in range(3500)]),
    "lazy mapping": Lazy,
    "50 documents of 2 KB": lambda: [Document(passage(300), id=str(one)) for one in range(50)],
    "1,000 documents": lambda: [Document(passage(20), metadata={"n": n}) for n in range(1000)],
    "cycle": cycle,
}


Spend = Callable[[str, float], None]


def watch(handler: RagEvalCallbackHandler, spend: Spend) -> None:
    """Report the milliseconds of each event of a handler."""

    def measured(name: str, call: Callable[..., None]) -> Callable[..., None]:
        def handle(*args: Any, **event: Any) -> None:
            start = time.thread_time_ns()
            call(*args, **event)
            spend(name, (time.thread_time_ns() - start) / 1e6)

        return handle

    for name in EVENTS:
        setattr(handler, name, measured(name, getattr(handler, name)))


def print_longest() -> None:
    """Print the longest callback for each payload."""
    for title, make in PAYLOADS.items():
        payload = make()

        def find(asked: str, found: Any = payload) -> Any:
            return {"found": found, "question": asked}

        def answer(_: Any) -> Any:
            return MODEL.invoke("question")

        chain = RunnableLambda[Any, Any](find) | RunnablePassthrough() | answer
        evals = RagEval(sample_rate=0.0, sinks=[])
        handler = RagEvalCallbackHandler(evals)
        times: list[tuple[float, str]] = []
        watch(handler, lambda name, spent, times=times: times.append((spent, name)))  # type: ignore[misc]
        for number in range(3):
            chain.invoke(f"question {number}?", {"callbacks": [handler]})
        longest, event = max(times)
        print(f"{title:24} {longest:7.2f} ms  {event}")
        evals.shutdown()


def print_left_out() -> None:
    """Print what a request costs that is sampled out, by where that is decided."""
    for spans, where in (("auto", "end"), ("sampled", "start")):
        settings: Any = {"spans": spans}
        evals = RagEval(sample_rate=0.0, sinks=[], **settings)
        handler = RagEvalCallbackHandler(evals)
        times: list[float] = []
        watch(handler, lambda _, spent, times=times: times.append(spent))  # type: ignore[misc]
        chain = RunnablePassthrough[Any]() | RunnablePassthrough() | MODEL
        for number in range(REQUESTS):
            chain.invoke(f"question {number}?", {"callbacks": [handler]})
        cost = sum(times) / REQUESTS * 1e3
        print(f"sampled out at the {where} of a request of 4 runs: {cost:.0f} us")
        evals.shutdown()


if __name__ == "__main__":
    print_longest()
    print_left_out()
