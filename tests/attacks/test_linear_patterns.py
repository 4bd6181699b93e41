"""Patterns and functions over application text take time in line with its length."""

from __future__ import annotations

import importlib
import pkgutil
import random
import re
import time
import tracemalloc
from collections.abc import Callable, Iterator
from functools import partial
from typing import Any

import pytest

import rag_eval_hooks.capture
import rag_eval_hooks.judges.heuristic
import rag_eval_hooks.redaction
import rag_eval_hooks.text
from rag_eval_hooks import RagEval
from rag_eval_hooks.judges.heuristic.reference import claims
from rag_eval_hooks.text.folding import LazyPatterns, collapse_runs, tokens
from rag_eval_hooks.text.key_terms import entities, keywords
from rag_eval_hooks.text.measures import measures, numbers
from rag_eval_hooks.text.refusals import refusal
from rag_eval_hooks.text.sentences import sentences

LENGTH = 20_000
GROWTH = 2.5**3  # of three doublings
FLOOR = 0.05  # seconds of CPU; less is no measurement
RUNS = (" ", "\t", "\n", "1", ".", '"', "'", "a", "中", "\u0301", "of ")


def values(holder: Any) -> Iterator[Any]:
    if isinstance(holder, LazyPatterns):
        holder = [holder[name] for name in holder.texts]
    elif isinstance(holder, dict):
        holder = tuple(holder.values())
    if isinstance(holder, tuple | list):
        for one in holder:
            yield from values(one)
    else:
        yield holder


PACKAGES = (
    rag_eval_hooks.text,
    rag_eval_hooks.judges.heuristic,
    rag_eval_hooks.redaction,
    rag_eval_hooks.capture,
)


def patterns() -> dict[str, re.Pattern[str]]:
    found: dict[str, tuple[str, re.Pattern[str]]] = {}
    for package in PACKAGES:
        for module in pkgutil.iter_modules(package.__path__, f"{package.__name__}."):
            for name, holder in vars(importlib.import_module(module.name)).items():
                for at, value in enumerate(values(holder)):
                    if isinstance(value, re.Pattern):
                        found.setdefault(value.pattern, (f"{module.name}.{name}[{at}]", value))
    return dict(found.values())


def spent(call: Callable[[str], Any], text: str, times_measured: int = 3) -> float:
    times: list[float] = []
    for _ in range(times_measured):
        start = time.process_time()
        call(text)
        times.append(time.process_time() - start)
        if times[-1] < FLOOR:
            break
    return min(times)


def is_linear(call: Callable[[str], Any], run: str, length: int = LENGTH) -> bool:
    text = run * (length // len(run))
    for _ in range(3):  # other load disturbs a single measurement
        long = spent(call, f"{text}\x00", 1)
        if long <= FLOOR or long <= GROWTH * spent(call, f"{text[: length // 8]}\x00"):
            return True
    return False


PATTERNS = dict(sorted(patterns().items()))


def test_pattern_over_a_run_takes_linear_time() -> None:
    for name in PATTERNS:
        pattern = PATTERNS[name]
        # A table of number words takes long at each character, at any length.
        length = LENGTH // (2 if len(pattern.pattern) < 3000 else 20)

        def find(text: str, pattern: re.Pattern[str] = pattern) -> Any:
            return list(pattern.finditer(text))

        assert not [run for run in RUNS if not is_linear(find, run, length)], name


def read_collapsed(read: Callable[[str], Any], text: str) -> Any:
    return read(collapse_runs(text))


def test_reading_a_collapsed_run_takes_linear_time() -> None:
    readers: list[Callable[[str], Any]] = [tokens, sentences, numbers, measures, keywords]
    readers += [entities, refusal, claims]
    for read in readers:
        assert not [run for run in RUNS if not is_linear(partial(read_collapsed, read), run)]


DISTINCT = (
    *("{word} ", "{Word}, ", "{Word} {word}. ", "{n} ", "{n} km, ", "{n}.{n}% ", "{n}:{n} "),
    *("1 May {n}, ", "http://{word}.com/ ", "{word}@{word}.com ", "{word} / ", "| {word} "),
    *("\n- {word}", "\n{n}. {word}", "[{word}-{n}] ", "{Word} {Word}; ", "{word} not only "),
    *("<EMAIL_{n}> ", "{word}'s ", '"{word}" ', "{word}: {n}, "),
)
"""Runs of units that all differ: what is compared with each other grows by the square."""


def written(unit: str, length: int, seed: int) -> str:
    drawn = random.Random(seed)

    def word() -> str:
        return "".join(drawn.choices("abcdefghijklmnoprstuvwz", k=drawn.randint(3, 8)))

    made = ""
    while len(made) < length:
        made += unit.format(word=word(), Word=word().capitalize(), n=drawn.randint(1, 2000))
    return made


@pytest.mark.long
@pytest.mark.parametrize("unit", DISTINCT)
def test_evaluating_texts_of_distinct_units_takes_linear_time(unit: str) -> None:
    def evaluate(length: int) -> float:
        texts = [written(unit, length, seed) for seed in range(5)]
        sample = {
            "question": f"What is {texts[0][:200]}?",
            "contexts": texts[1:3],
            "answer": texts[3],
            "reference": texts[4],
        }
        return spent(lambda _: evals.evaluate(sample), "")

    with RagEval("all", embedder="none", redact="all") as evals:
        evaluate(10)  # What is loaded at first use is loaded now.
        # Garbage collection and other programs may disturb a measurement.
        for _ in range(3):
            long = evaluate(LENGTH // 2)
            if long <= 8 * FLOOR or long <= GROWTH * evaluate(LENGTH // 16):
                return
        pytest.fail("the time grows faster than the length, three times")


def test_cached_reading_keeps_no_long_text() -> None:
    tracemalloc.start()
    try:
        measures(written("{n} km, ", 4000, 0))
        before, _ = tracemalloc.get_traced_memory()
        for seed in range(1, 9):
            measures(written("{n} km, ", 4000, seed))
        after, _ = tracemalloc.get_traced_memory()
    finally:
        tracemalloc.stop()
    assert after - before < 100_000
