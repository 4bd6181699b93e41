"""Measure our library and the other libraries. `missing` lists each failed measurement."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterable
from functools import partial
from pathlib import Path
from typing import Any

from benchmarks.peers.environments import OURS, PeerFailure, driven, made, version
from benchmarks.peers.replies import replier
from tests.support.corpus import samples
from tests.support.servers.faults import Fault, FaultKind
from tests.support.servers.judge_server import JudgeServer

WATCHERS = ("openinference", "traceloop", "langfuse", "deepeval")
JUDGES = ("ragas", "deepeval", "trulens")
CONDITIONS = ("as sent", "20 % corrupted", "20 % HTTP 500")
Row = dict[str, Any]
Results = dict[str, list[Row]]


def measured(peers: Iterable[str], *, rounds: int, count: int) -> Results:
    results: Results = {part: [] for part in ("requests", "judging", "missing")}
    pythons: dict[str, Path] = {}

    def attempt(peer: str, part: str, work: Callable[[Path], Row]) -> None:
        print(f"{peer}: {part}", flush=True)
        try:
            if peer not in pythons:
                pythons[peer] = made(peer)
            results[part].append({"peer": peer, "version": version(peer), **work(pythons[peer])})
        except PeerFailure as error:
            results["missing"].append({"peer": peer, "part": part, "reason": str(error)})

    chosen = {OURS, *peers}
    for peer in (name for name in WATCHERS if name in chosen):
        run = partial(driven, module="request_path", arguments=(peer, "--rounds", str(rounds)))
        attempt(peer, "requests", run)
    for condition in CONDITIONS:
        for peer in (name for name in (OURS, *JUDGES) if name in chosen):
            attempt(peer, "judging", partial(judged, peer, condition=condition, count=count))
    _compare_with_clean(results["judging"])
    return results


def judged(library: str, python: Path, condition: str, count: int) -> Row:
    faults = [Fault(kind=FaultKind.SERVER_ERROR, rate=0.2)] if "500" in condition else []
    replies = replier(library, 0.2 if "corrupted" in condition else 0.0)
    given = [
        {"question": one.question, "contexts": [c.text for c in one.contexts or ()]}
        | {"answer": one.answer}
        for one in samples(count)
    ]
    with JudgeServer(replies=replies, faults=faults) as server:
        found = driven(python, "judging", (library, server.url), text=json.dumps(given))
        calls = server.calls()
    chars = sum(call.prompt_chars for call in calls) / count
    row = {"condition": condition, "samples": count, "calls": len(calls) / count, "chars": chars}
    return {**row, **found, "scored": sum(score is not None for score in found["scores"])}


def _compare_with_clean(rows: list[Row]) -> None:
    # `changed` counts scores that differ from the scores without faults.
    clean = {row["peer"]: row["scores"] for row in rows if row["condition"] == CONDITIONS[0]}
    for row in rows:
        pairs = zip(row.pop("scores"), clean[row["peer"]], strict=True)
        row["changed"] = sum(a is not None and a != b for a, b in pairs)
