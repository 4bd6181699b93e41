"""The way of one request through our code: files, functions and objects.

    python -m benchmarks.call_path [--list]

Two requests: a LangChain chain answers one question, and an OpenAI-compatible judge on loopback
judges its faithfulness; and a ready sample is submitted to one metric and one sink. The third
request of each is profiled, by `sys.setprofile` in every thread, from its start until it is
delivered. Frames of other packages are not counted.
"""

from __future__ import annotations

import argparse
import sys
import threading
from collections import Counter
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from types import CodeType, FrameType
from typing import Any

import rag_eval_hooks
import rag_eval_hooks_langchain
from rag_eval_hooks import Context, Evaluation, RagEval, Sample

_OWN = tuple(str(Path(p.__file__ or "").parent) for p in (rag_eval_hooks, rag_eval_hooks_langchain))


@dataclass
class CallPath:
    """What was called while it was recorded."""

    calls: Counter[CodeType] = field(default_factory=Counter)
    made: Counter[str] = field(default_factory=Counter)  # objects of our own classes

    @property
    def files(self) -> int:
        """Own files with a function that was called."""
        return len({code.co_filename for code in self.calls if code.co_filename != "<string>"})

    @property
    def functions(self) -> int:
        """Own functions that were called, without comprehensions."""
        return sum(not code.co_name.startswith("<") for code in self.calls)

    def entered(self, frame: FrameType) -> None:
        """Count the call of one frame."""
        code = frame.f_code
        if code.co_name == "__init__":
            self._count_object(frame)
        if code.co_filename.startswith(_OWN):
            self.calls[code] += 1

    def _count_object(self, frame: FrameType) -> None:
        """Count an object once, also where its base class has a constructor of its own."""
        made = frame.f_locals.get("self")
        caller = frame.f_back
        inner = caller is not None and caller.f_locals.get("self") is made
        if type(made).__module__.startswith("rag_eval_hooks") and not inner:
            self.made[type(made).__qualname__] += 1


class _Profile:
    """Profile function of all threads, which records while `path` is set."""

    def __init__(self) -> None:
        self.path: CallPath | None = None

    def __call__(self, frame: FrameType, event: str, _: Any) -> None:
        if event == "call" and self.path is not None:
            self.path.entered(frame)


def _profiled(evals: RagEval, profile: _Profile, request: Callable[[int], object]) -> CallPath:
    """Make three requests and return the call path of the last."""
    for number in range(3):
        if number == 2:
            profile.path = CallPath()
            sys.setprofile(profile)
        request(number)
        sys.setprofile(None)
        if not evals.flush(60):
            raise RuntimeError("the request was not evaluated within a minute")
    path, profile.path = profile.path, None
    if evals.stats().scored != 3:
        raise RuntimeError(f"not scored: {evals.stats()}")
    assert path is not None
    return path


@contextmanager
def _profiling() -> Iterator[_Profile]:
    profile = _Profile()
    # Threads take the function over when they start, so it is set before there are any.
    threading.setprofile(profile)
    try:
        yield profile
    finally:
        sys.setprofile(None)
        threading.setprofile(None)


def measure_submitted() -> CallPath:
    """Return the call path of one sample that is submitted to one metric and one sink."""

    def metric(_sample: Sample) -> float:
        return 1.0

    def sink(_evaluation: Evaluation) -> None:
        return None

    with _profiling() as profile, RagEval([metric], sinks=[sink]) as evals:
        one = Sample(question="q", contexts=(Context(text="c"),), answer="a")
        return _profiled(evals, profile, lambda _: evals.submit(one))


def measure_captured() -> CallPath:
    """Return the call path of one request that LangChain reports and a judge judges."""
    from langchain_core.documents import Document
    from langchain_core.language_models import FakeListChatModel
    from langchain_core.output_parsers import StrOutputParser
    from langchain_core.prompts import ChatPromptTemplate
    from langchain_core.runnables import RunnableLambda, RunnablePassthrough
    from opentelemetry.sdk.trace import TracerProvider

    from rag_eval_hooks.judges.openai import OpenAIJudge
    from rag_eval_hooks_langchain import RagEvalCallbackHandler
    from tests.matrix.langchain.kit import store
    from tests.servers.judge_server import JudgeServer

    def as_text(documents: list[Document]) -> str:
        return "\n".join(document.page_content for document in documents)

    chain: Any = (
        {"context": store().as_retriever() | RunnableLambda(as_text), "q": RunnablePassthrough()}
        | ChatPromptTemplate.from_template("{context}\n{q}")
        | FakeListChatModel(responses=["The ferry leaves at twenty to eight."])
        | StrOutputParser()
    )
    with (
        _profiling() as profile,
        JudgeServer() as server,
        RagEval(
            ["ragas.faithfulness"],
            OpenAIJudge("m", base_url=server.url, api_key="k"),
            tracer_provider=TracerProvider(),
        ) as evals,
    ):
        handler = RagEvalCallbackHandler(evals)

        def ask(number: int) -> None:
            chain.invoke(f"{number}: when does it leave?", {"callbacks": [handler]})

        return _profiled(evals, profile, ask)


def main() -> None:
    """Print the figures, and with `--list` every function and class."""
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0] if __doc__ else None)
    parser.add_argument("--list", action="store_true", help="every function and class too")
    arguments = parser.parse_args()
    for name, measure in (("submitted", measure_submitted), ("captured", measure_captured)):
        _print(name, measure(), is_long=arguments.list)


def _print(name: str, path: CallPath, *, is_long: bool) -> None:
    print(f"{name}: {path.calls.total()} calls of {path.functions} functions in {path.files} files")
    print(f"  {path.made.total()} objects of {len(path.made)} classes")
    if is_long:
        for code, count in path.calls.most_common():
            file = code.co_filename.rpartition("rag_eval_hooks")[2]
            print(f"{count:5} {file}:{code.co_qualname}")
        for made, count in path.made.most_common():
            print(f"{count:5} {made}")


if __name__ == "__main__":
    main()
