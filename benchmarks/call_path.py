"""Count the files, functions and objects of our code that one request uses.

    python -m benchmarks.call_path [--list]

The first request passes a sample to `submit`, with one metric and one sink. The second request runs
a LangChain chain, and a local judge server scores the answer's faithfulness. Each request runs
three times. The benchmark counts the calls of the third run, in every thread, until the scores are
delivered.
"""

from __future__ import annotations

import argparse
import sys
import threading
from collections import Counter
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from types import CodeType, FrameType
from typing import Any

import rag_eval_hooks
import rag_eval_hooks_langchain
from rag_eval_hooks import RagEval, Sample

_OWN = tuple(str(Path(p.__file__ or "").parent) for p in (rag_eval_hooks, rag_eval_hooks_langchain))


class CallPath:
    def __init__(self) -> None:
        self.is_recording = False
        self.calls: Counter[CodeType] = Counter()
        self.made: Counter[str] = Counter()  # objects of our own classes

    def __call__(self, frame: FrameType, event: str, _: Any) -> None:
        if event != "call" or not self.is_recording:
            return
        code = frame.f_code
        if code.co_name == "__init__":
            self._count_object(frame)
        if code.co_filename.startswith(_OWN):
            self.calls[code] += 1

    def _count_object(self, frame: FrameType) -> None:
        made = frame.f_locals.get("self")
        caller = frame.f_back
        inner = caller is not None and caller.f_locals.get("self") is made
        if type(made).__module__.startswith("rag_eval_hooks") and not inner:
            self.made[type(made).__qualname__] += 1

    def record(self, evals: RagEval, request: Callable[[int], object]) -> None:
        for number in range(3):
            self.is_recording = number == 2
            sys.setprofile(self if self.is_recording else None)
            request(number)
            sys.setprofile(None)
            if not evals.flush(60):
                raise RuntimeError("The request was not evaluated within a minute.")
        self.is_recording = False
        if evals.stats().scored != 3:
            raise RuntimeError(f"A request has no score: {evals.stats()}")

    def print(self, name: str, *, is_long: bool) -> None:
        files = len({code.co_filename for code in self.calls if code.co_filename != "<string>"})
        functions = sum(not code.co_name.startswith("<") for code in self.calls)
        print(f"{name}: {self.calls.total()} calls of {functions} functions in {files} files")
        print(f"  {self.made.total()} objects of {len(self.made)} classes")
        if is_long:
            for code, count in self.calls.most_common():
                print(f"{count:5} {code.co_filename.rpartition('/')[2]}:{code.co_qualname}")
            for made, count in self.made.most_common():
                print(f"{count:5} {made}")


@contextmanager
def profiling() -> Iterator[CallPath]:
    path = CallPath()
    # Set the profile function before `RagEval` starts threads, because a new thread copies it.
    threading.setprofile(path)
    yield path
    threading.setprofile(None)


def submitted() -> CallPath:
    one = {"question": "q", "contexts": ["c"], "answer": "a"}
    with profiling() as path, RagEval([lambda _: 1.0], sinks=[lambda _: None]) as evals:
        path.record(evals, lambda _: evals.submit(Sample.from_dict(one)))
    return path


def captured() -> CallPath:
    from benchmarks.handler_overhead import build_chain, handler, invoke
    from tests.support.servers.judge_server import JudgeServer

    chain = build_chain()
    endpoint: Any = {"judge_api_key": "k", "judge": "openai:m", "embedder": "none"}
    with (
        profiling() as path,
        JudgeServer() as server,
        RagEval("ragas.faithfulness", judge_base_url=server.url, **endpoint) as evals,
    ):
        path.record(evals, lambda number: invoke(chain, f"{number}: when?", handler(evals)))
    return path


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0] if __doc__ else None)
    parser.add_argument("--list", action="store_true", help="also list every function and class")
    arguments = parser.parse_args()
    for measure in (submitted, captured):
        measure().print(measure.__name__, is_long=arguments.list)


if __name__ == "__main__":
    main()
