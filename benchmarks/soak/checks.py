"""What must be true at the end; each check gives the findings that are not as they must be."""

from __future__ import annotations

import json
import sqlite3
import time
from collections import Counter
from collections.abc import Iterator
from contextlib import closing

from benchmarks.soak.variants import Variant
from benchmarks.soak.watch import ours
from rag_eval_hooks import Stats

__all__ = ["books", "budget", "leaks", "results", "spool", "threads", "total"]

_GRACE_S = 10.0
_DOOR = ("queue_full", "no_thread", "error", "cancelled", "closed", "interrupted", "abandoned")
"""Reasons for which a sample is dropped before it is accepted."""


def total(stats: Stats) -> int:
    """Sum of all columns of the books."""
    counted = stats.scored + stats.sampled_out + stats.pending
    return counted + sum(stats.dropped.values()) + sum(stats.failed.values())


def books(variant: Variant) -> Iterator[str]:
    """Every request stands in the books once, in the column of how it ended."""
    assert variant.evals is not None
    stats, sent = variant.evals.stats(), variant.sent
    if not stats.offered == total(stats) == sum(sent.values()):
        yield f"sent {sum(sent.values())}, offered {stats.offered}, columns {total(stats)}"
    if stats.pending or stats.recovered:
        yield f"pending {stats.pending}, recovered {stats.recovered} at the end"
    for status in ("error", "cancelled", "closed", "interrupted"):
        if stats.dropped.get(status, 0) != sent[status]:
            yield f"sent {sent[status]} as {status}, counted {stats.dropped.get(status, 0)}"
    if sum(stats.feedback.values()) != variant.feedback:
        yield f"feedback {variant.feedback}, counted {dict(stats.feedback)}"


def spool(variant: Variant) -> Iterator[str]:
    """All that was accepted was on disk, and has left it."""
    assert variant.evals is not None
    stats, told = variant.evals.stats(), Counter(variant.evals.spooled())
    accepted = stats.offered - stats.sampled_out
    accepted -= sum(stats.dropped.get(reason, 0) for reason in _DOOR)
    if told["accepted"] + stats.undurable != accepted:
        yield f"accepted {accepted}, in the spool {told['accepted']}, undurable {stats.undurable}"
    if told["accepted"] != sum(count for name, count in told.items() if name != "accepted"):
        yield f"the spool's books do not add up: {dict(told)}"
    if told["pending"]:
        yield f"{told['pending']} left in the spool"


def results(variant: Variant) -> Iterator[str]:
    """The file has every evaluated sample, once."""
    assert variant.evals is not None
    stats = variant.evals.stats()
    found: Counter[str] = Counter()
    with variant.results.open() as lines:
        for line in lines:
            told = json.loads(line)
            if "sample" in told:
                found[told["sample"]["sample_id"]] += 1
    evaluated = stats.scored + sum(stats.failed.values()) + stats.dropped.get("budget", 0)
    late = sum(count for kind, count in stats.incidents.items() if kind.startswith("sink "))
    if twice := sum(count > 1 for count in found.values()):
        yield f"{twice} samples twice in the file"
    if not evaluated - late <= len(found) <= evaluated:
        yield f"evaluated {evaluated}, in the file {len(found)}, sinks missed {late}"


def budget(variant: Variant, calls_per_hour: float) -> Iterator[str]:
    """No hour took more calls than it may."""
    path = variant.folder / "budget.sqlite"
    if path.exists():
        with closing(sqlite3.connect(path)) as db:
            query = "SELECT MAX(calls) FROM rag_eval_budget WHERE period = 'hour'"
            most = db.execute(query).fetchone()[0] or 0
        if most > calls_per_hour:
            yield f"{most:.0f} calls in an hour of a budget of {calls_per_hour:.0f}"


def leaks(variant: Variant) -> Iterator[str]:
    """Nothing is open after the shutdown: no interaction, no span."""
    evals = variant.evals
    assert evals is not None
    recorder, pipeline = evals.recorder, evals._engine.pipeline
    places = {
        "interactions open": len(recorder._open),
        "runs open": len(recorder._runs),
        "streams waited for": len(recorder._waiting),
        "interrupts": len(recorder.suspensions),
        "spans held": len(pipeline._holder),
        "samples queued": len(pipeline._evaluator),
        "spans begun and not ended": variant.spans.counts["started"]
        - variant.spans.counts["ended"],
    }
    yield from (f"{count} {place}" for place, count in places.items() if count)


def threads() -> Iterator[str]:
    """None of the package's threads is left, after some seconds of grace."""
    until = time.monotonic() + _GRACE_S
    while (left := ours()) and time.monotonic() < until:
        time.sleep(0.1)
    if left:
        yield f"threads left: {Counter(left)}"
