"""Parts of the comparison, each a list of rows; a peer that cannot be measured has its reason."""

from __future__ import annotations

import functools
import json
from collections.abc import Callable, Iterable, Mapping
from pathlib import Path
from typing import Any

from benchmarks.peers.environments import (
    IMPORTS,
    OURS,
    PeerFailure,
    driven,
    import_seconds,
    made,
    size_mb,
    version,
)
from benchmarks.peers.replies import replier
from tests.servers.faults import Fault, FaultKind
from tests.servers.judge_server import JudgeServer
from tests.support.corpus import samples

__all__ = ["JUDGES", "WATCHERS", "Results", "measured"]

WATCHERS = ("openinference", "traceloop", "langfuse", "deepeval")
JUDGES = ("ragas", "deepeval", "trulens")
CONDITIONS = ("as sent", "20 % corrupted", "20 % HTTP 500")
Row = dict[str, Any]
Results = dict[str, list[Row]]


def measured(peers: Iterable[str], *, rounds: int, count: int) -> Results:
    """Return all parts by name.

    Args:
        peers: The peers; ours is always measured.
        rounds: Of the request path.
        count: Samples to judge.
    """
    parts = ("requests", "judging", "install", "missing")
    results: Results = {part: [] for part in parts}
    pythons: dict[str, Path] = {}

    def attempt(peer: str, part: str, work: Callable[[], Iterable[Row]]) -> None:
        print(f"{peer}: {part}", flush=True)
        try:
            results[part].extend(work())
        except PeerFailure as error:
            results["missing"].append({"peer": peer, "part": part, "reason": str(error)})

    for peer in (OURS, *peers):

        def install(peer: str = peer) -> Iterable[Row]:
            pythons[peer] = made(peer)
            return [installed(peer, pythons[peer])]

        attempt(peer, "install", install)
    for peer in (name for name in WATCHERS if name in pythons):
        python = pythons[peer]
        attempt(peer, "requests", functools.partial(request_path, peer, python, rounds))
    for condition in CONDITIONS:
        for library in (name for name in (OURS, *JUDGES) if name in pythons):
            python = pythons[library]
            attempt(
                library,
                "judging",
                functools.partial(judged, library, python, condition, count),
            )
    _compare_with_clean(results["judging"])
    return results


def installed(peer: str, python: Path) -> Row:
    """Return the version, size and import time of a peer."""
    seconds = import_seconds(python, IMPORTS[peer])
    return {
        "peer": peer,
        "version": version(peer),
        "size_mb": size_mb(python),
        "import_s": seconds,
    }


def request_path(peer: str, python: Path, rounds: int) -> list[Row]:
    """Return the costs that a peer and ours add to the same requests."""
    return [driven(python, "request_path", peer, "--rounds", str(rounds))]


def judged(library: str, python: Path, condition: str, count: int) -> list[Row]:
    """Return a library's scores of the samples, and what the judge server saw."""
    faults = [Fault(kind=FaultKind.SERVER_ERROR, rate=0.2)] if "500" in condition else []
    corrupted = 0.2 if "corrupted" in condition else 0.0
    rows = [sample.to_dict() for sample in samples(count)]
    plain = [{name: row[name] for name in ("question", "contexts", "answer")} for row in rows]
    for row in plain:
        row["contexts"] = [_text(context) for context in row["contexts"]]
    with JudgeServer(replies=replier(library, corrupted), faults=faults) as server:
        found = driven(python, "judging", library, server.url, text=json.dumps(plain))
        calls = server.calls()
    return [
        {
            "peer": library,
            "condition": condition,
            "samples": count,
            "calls": len(calls) / count,
            "chars": sum(call.prompt_chars for call in calls) / count,
            "wall_s": found["wall_s"],
            "cpu_s": found["cpu_s"],
            "scores": found["scores"],
            "scored": sum(score is not None for score in found["scores"]),
        }
    ]


def _text(context: str | Mapping[str, Any]) -> str:
    return context if isinstance(context, str) else str(context["text"])


def _compare_with_clean(rows: list[Row]) -> None:
    """Count in each row the scores that differ from those of the undisturbed run."""
    clean = {row["peer"]: row["scores"] for row in rows if row["condition"] == CONDITIONS[0]}
    for row in rows:
        pairs = zip(row.pop("scores"), clean[row["peer"]], strict=True)
        row["changed"] = sum(a is not None and a != b for a, b in pairs)
