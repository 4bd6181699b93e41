"""Measure the longest stall of the application's threads while adversarial samples are evaluated.

A thread sleeps for one millisecond again and again, and records the delay of each wakeup. The
thread also records how long this process computed during the delay. Other load on the machine
causes the rest.

Each text repeats one character or unit up to the length limit of capture: white space, digits,
dots, quotes, brackets or combining marks. For comparison, the process then counts and idles for the
same time.

    python -m benchmarks.standstill [--samples 200] [--seed 0] [--json FILE]
"""

from __future__ import annotations

import gc
import random
import threading
import time
from array import array
from collections.abc import Callable, Iterator
from operator import sub

from benchmarks.table import parser_of, written
from rag_eval_hooks import RagEval, Sample

GATE_MS = 50.0
LENGTH = 20_000
UNITS = (
    *(" ", "\t", "\n", "\r\n ", "\u00a0", "\u2003", "\u200b", "0", "7.", "1,", "-", "\u2013"),
    *(".", "...", "?!", '"', "'", "\u201c", "(", "[1]", "{", "<", "&", "|", "/", "\\", "*", "#"),
    *("a", "A.", "x y ", "no ", "the the ", "\u0301", "\u0e33", "漢", "。", "が", "한", "ß", "İ"),
    *("http://", "a@", "2024-01-", "$1 ", "not only ", "1/2 ", "- \n", "a" * 50 + " "),
)
SENTENCE = "The last ferry to Oslo {}leaves at 22:40{} on weekdays."


def texts(drawn: random.Random) -> Iterator[str]:
    """Yield texts that repeat one unit at the start, inside or at the end of a sentence."""
    while True:
        runs = [drawn.choice(UNITS) for _ in range(2)]
        lengths = [drawn.choice((0, LENGTH // 10, LENGTH // 2)) for _ in range(2)]
        filled = [unit * (length // len(unit)) for unit, length in zip(runs, lengths, strict=True)]
        yield SENTENCE.format(*filled)


class Lateness:
    """For each wakeup, in milliseconds: the delay, and the work of this process meanwhile.

    The work is computation and garbage collection.
    """

    def __init__(self) -> None:
        # Arrays add no objects that the garbage collector visits.
        self.late, self.computed, self.collected = array("d"), array("d"), array("d")
        self._ended, self._began = 0.0, 0.0

    def note_collection(self, phase: str, _: object) -> None:
        if phase == "start":
            self._began = time.process_time()
        else:
            self._ended, self._began = self._seconds(), 0.0

    def _seconds(self) -> float:
        return self._ended + (time.process_time() - self._began if self._began else 0.0)

    def during(self, work: Callable[[], object]) -> Lateness:
        done = threading.Event()

        def tick() -> None:
            while not done.is_set():
                began, cpu, total = time.perf_counter(), time.process_time(), self._seconds()
                time.sleep(0.001)
                late = (time.perf_counter() - began) * 1e3 - 1
                self.late.append(late)
                self.computed.append(min(late, (time.process_time() - cpu) * 1e3))
                self.collected.append((self._seconds() - total) * 1e3)

        gc.callbacks.append(self.note_collection)
        thread = threading.Thread(target=tick)
        thread.start()
        work()
        done.set()
        thread.join()
        gc.callbacks.remove(self.note_collection)
        return self


def counting(seconds: float) -> None:
    until = time.perf_counter() + seconds
    while time.perf_counter() < until:
        sum(range(1000))


def main() -> None:
    parser = parser_of(__doc__)
    parser.add_argument("--samples", type=int, default=200)
    parser.add_argument("--seed", type=int, default=0)
    options = parser.parse_args()
    drawn = texts(random.Random(options.seed))
    samples = [
        Sample(
            question=next(drawn),
            contexts=(next(drawn), next(drawn)),  # type: ignore[arg-type]
            answer=next(drawn),
            reference=next(drawn),
        )
        for _ in range(options.samples)
    ]
    with RagEval("all", embedder="none") as evals:
        evals.evaluate(samples[0])  # Load lazy modules now, so that the measured call does not.

        def evaluate() -> None:
            for sample in samples:
                evals.submit(sample)
            evals.flush(600)

        began = time.perf_counter()
        noted = {"evaluating": Lateness().during(evaluate)}
        seconds = time.perf_counter() - began
        noted["counting"] = Lateness().during(lambda: counting(seconds))
        noted["idle"] = Lateness().during(lambda: time.sleep(seconds))
        print(f"{evals.stats().scored} of {len(samples)} samples scored")
    rows = [
        {
            "process": name,
            "longest ms": max(each.late),
            "p99.9 ms": sorted(each.late)[int(len(each.late) * 0.999)],
            "longest computed ms": max(each.computed),
            "without collection ms": max(map(sub, each.computed, each.collected)),
        }
        for name, each in noted.items()
    ]
    written(rows, options.json)
    print(
        f"goal: at most {GATE_MS:.0f} ms without garbage collection; other processes took the rest"
    )
    print(f"Python collects garbage among {len(gc.get_objects())} objects")


if __name__ == "__main__":
    main()
