"""Measure the longest stall of the application's threads while adversarial samples are evaluated.

    python -m benchmarks.standstill [--samples 200] [--seed 0] [--json FILE]

A thread repeatedly sleeps for one millisecond, and records the delay of each wakeup. The thread
also records the CPU time of this process during the delay. If the delay exceeds the CPU time, other
load on the machine causes the difference. Garbage collection is off. For comparison, the process
then idles for an equally long time.
"""

from __future__ import annotations

import gc
import random
import threading
import time
from collections.abc import Callable, Iterator

from benchmarks.table import parser_of, written
from rag_eval_hooks import RagEval, Sample

LENGTH = 20_000
UNITS = (
    *(" ", "\t", "\n", "\r\n ", "\u00a0", "\u2003", "\u200b", "0", "7.", "1,", "-", "\u2013"),
    *(".", "...", "?!", '"', "'", "\u201c", "(", "[1]", "{", "<", "&", "|", "/", "\\", "*", "#"),
    *("a", "A.", "x y ", "no ", "the the ", "\u0301", "\u0e33", "漢", "。", "が", "한", "ß", "İ"),
    *("http://", "a@", "2024-01-", "$1 ", "not only ", "1/2 ", "- \n", "a" * 50 + " "),
)
SENTENCE = "The last ferry to Oslo {}leaves at 22:40{} on weekdays."


def texts(drawn: random.Random) -> Iterator[str]:
    while True:
        runs = [drawn.choice(UNITS) for _ in range(2)]
        lengths = [drawn.choice((0, LENGTH // 10, LENGTH // 2)) for _ in range(2)]
        filled = [unit * (length // len(unit)) for unit, length in zip(runs, lengths, strict=True)]
        yield SENTENCE.format(*filled)


def wakeups(work: Callable[[], object]) -> list[tuple[float, float]]:
    late: list[tuple[float, float]] = []
    done = threading.Event()

    def tick() -> None:
        while not done.is_set():
            began, cpu = time.perf_counter(), time.process_time()
            time.sleep(0.001)
            delay = (time.perf_counter() - began) * 1e3 - 1
            late.append((delay, min(delay, (time.process_time() - cpu) * 1e3)))

    thread = threading.Thread(target=tick)
    thread.start()
    work()
    done.set()
    thread.join()
    return late


def main() -> None:
    parser = parser_of(__doc__)
    parser.add_argument("--samples", type=int, default=200)
    parser.add_argument("--seed", type=int, default=0)
    options = parser.parse_args()
    drawn = texts(random.Random(options.seed))
    fields = ("question", "answer", "reference")
    samples = [
        Sample.from_dict({name: next(drawn) for name in fields} | {"contexts": [next(drawn)] * 2})
        for _ in range(options.samples)
    ]
    with RagEval("all", embedder="none") as evals:
        evals.evaluate(samples[0])  # Load lazy modules before the measured call.

        def evaluate() -> None:
            for sample in samples:
                evals.submit(sample)
            evals.flush(600)

        gc.disable()
        began = time.perf_counter()
        noted = {"evaluating": wakeups(evaluate)}
        seconds = time.perf_counter() - began
        noted["idle"] = wakeups(lambda: time.sleep(seconds))
        print(f"{evals.stats().scored} of {len(samples)} samples scored")
    rows = [
        {
            "process": name,
            "longest ms": max(late)[0],
            "p99.9 ms": sorted(late)[int(len(late) * 0.999)][0],
            "longest computed ms": max(computed for _, computed in late),
        }
        for name, late in noted.items()
    ]
    written(rows, options.json)
    print("goal: our code stops all other threads for at most 50 ms")


if __name__ == "__main__":
    main()
