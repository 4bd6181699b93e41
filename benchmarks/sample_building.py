"""CPU time to build the sample of an agent's request, by number of calls and documents.

    python benchmarks/sample_building.py

CPU time of the thread that builds, not wall time.
"""

from __future__ import annotations

import random
import time

from rag_eval_hooks.capture import Interaction, Recorder, RunKind, assemble
from rag_eval_hooks.sample import Context

SHAPES = ((1, 5, 60), (20, 10, 300), (20, 50, 12))
"""Tool calls, documents of each, words of each document."""
TRIES = 5
DICE = random.Random(3)
WORDS = [f"word{number}" for number in range(4000)]


def request(calls: int, documents: int, words: int) -> Interaction:
    """Return the ended request of an agent that is shown all documents so far at each call."""
    ended: list[Interaction] = []
    recorder = Recorder(ended.append, ttl=60, max_open=9)
    root = recorder.start("root", None, RunKind.CHAIN, "agent")
    prompt = ["Which word comes first?"]
    for call in range(calls):
        tool = recorder.start(f"tool {call}", "root", RunKind.TOOL, "search")
        model = recorder.start(f"model {call}", "root", RunKind.MODEL, "model")
        if root is None or tool is None or model is None:
            raise RuntimeError("the recorder is full")
        texts = [" ".join(DICE.choices(WORDS, k=words)) for _ in range(documents)]
        recorder.documents(tool, [Context(text=text, id=text[:9]) for text in texts])
        recorder.end(tool)
        prompt.append("\n".join(texts))
        model.prompt, model.text = (
            tuple(prompt),
            f"The first word of call {call} is {texts[0][:8]}.",
        )
        recorder.end(model)
        root.text = model.text
    if root is not None:
        root.query = prompt[0]
        recorder.end(root)
    return ended[0]


def main() -> None:
    """Print milliseconds by shape."""
    for calls, documents, words in SHAPES:
        interaction = request(calls, documents, words)
        times = []
        for _ in range(TRIES):
            start = time.thread_time()
            assemble(
                interaction, trace_id=None, span_id=None, max_contexts=50, max_text_chars=20_000
            )
            times.append(time.thread_time() - start)
        shape = f"{calls} calls x {documents} documents of {words} words"
        print(f"{shape}: {1000 * min(times):.1f} ms")


if __name__ == "__main__":
    main()
